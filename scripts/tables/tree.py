# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which sources a kernel target is compiled from.

A target is a class, a model and a quantization. It looks for a module, which is one .cu file, in
layers; the first that has it wins:

    kernels/<hw>/<model>/<quant>/    its leaf, if it is not the class's own target "*"
    kernels/<hw>/common/
    the same two of the class's parent, and so on

A file that hides another layer's says so in its folder's KERNEL.toml, with the reason:

    [shadow]
    "linear.cu" = "wgmma: twice the rate of mma.sync"

What is hidden without that, declared without hiding anything, or equal to what it hides, is
refused. KERNEL.toml may also hold [build] flags = [...], which every source of the folder gets.
MODEL.toml of a leaf's parent folder says which checkpoints the leaf is for.
"""

import hashlib
import re

from tables.base import fail, nothing_left, take

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
MAX_DEPTH = 8  # of parents


class Layer:
    """A folder of sources."""

    def __init__(self, sources, path):
        self.path, self.where = path, sources.name(path)
        self.files = {p.name: p for p in sorted(path.glob("*.cu"))}
        notes = path / "KERNEL.toml"
        table = dict(sources.load(notes)) if notes.exists() else {}
        build = dict(take(table, "build", self.where, {}))
        self.flags = take(build, "flags", self.where, [])
        self.shadow = take(table, "shadow", self.where, {})
        self.used = set()
        nothing_left(table, f"{self.where}/KERNEL.toml")
        nothing_left(build, f"{self.where}/KERNEL.toml: [build]")
        for name, reason in self.shadow.items():
            if not isinstance(reason, str) or len(reason.split()) < 2:
                fail(f"{self.where}/KERNEL.toml", f"the shadow {name} has no reason")

    def hide(self, name, below):
        """This layer's file wins over those of the layers below."""
        hidden = [layer.files[name] for layer in below if name in layer.files]
        if not hidden:
            return
        if name not in self.shadow:
            fail(f"{self.where}/{name}", f"hides {hidden[0].parent.name}/{name} of "
                 f"{hidden[0].parent.parent.name}: declare it in KERNEL.toml [shadow]")
        if self.files[name].read_bytes() == hidden[0].read_bytes():
            fail(f"{self.where}/{name}", "is the same as what it hides: delete it")
        self.used.add(name)

    def finish(self):
        for name in self.shadow:
            if name not in self.used:
                fail(f"{self.where}/KERNEL.toml", f"the shadow {name} hides nothing")


class Target:
    def __init__(self, hardware, model, quant, layers):
        self.hardware, self.model, self.quant = hardware, model, quant
        self.modules = {}  # name: (path, flags)
        for depth, layer in enumerate(layers):
            for name, path in layer.files.items():
                module = path.stem
                if module not in self.modules:
                    self.modules[module] = (path, layer.flags)
                    layer.hide(name, layers[depth + 1:])

    def name(self):
        return f"{self.hardware['name']}/{self.model}/{self.quant}"


class Tree:
    """All targets of all NVIDIA classes, checked."""

    def __init__(self, sources, root):
        self.sources, self.root = sources, root
        tables = [sources.load(p) for p in sorted(root.glob("kernels/*/HARDWARE.toml"))]
        self.tables = {t["name"]: t for t in tables}
        self.layers = {}
        self.classes = [n for n in self.tables if self.inherited(n, "vendor") == "nvidia"]
        self.targets = [t for name in self.classes for t in self.targets_of(name)]
        for layer in self.layers.values():
            layer.finish()

    def chain(self, name):
        """A class and its ancestors."""
        names = []
        while name is not None:
            if name in names or name not in self.tables or len(names) == MAX_DEPTH:
                fail(f"kernels/{name}", "no class, or its own ancestor")
            names.append(name)
            name = self.tables[name].get("parent")
        return names

    def inherited(self, name, key):
        values = [self.tables[n][key] for n in self.chain(name) if key in self.tables[n]]
        return values[0] if values else None

    def layer(self, path):
        if path not in self.layers and path.is_dir():
            self.layers[path] = Layer(self.sources, path)
        return self.layers.get(path)

    def leaves_of(self, name):
        """(model, quant) of the class and its ancestors."""
        found = set()
        for hardware in self.chain(name):
            folder = self.root / "kernels" / hardware
            for path in sorted(p for p in folder.glob("*/*") if p.is_dir()):
                if not (path.parent / "MODEL.toml").exists():
                    fail(self.sources.name(path.parent), "a model's folder has a MODEL.toml")
                found.add((path.parent.name, path.name))
        return sorted(found)

    def targets_of(self, name):
        hardware = {"name": name, "arch": self.inherited(name, "arch"),
                    "ptx": self.tables[name].get("ptx")}
        for model, quant in [("*", "*"), *self.leaves_of(name)]:
            layers = []
            for ancestor in self.chain(name):
                folder = self.root / "kernels" / ancestor
                layers += [self.layer(folder / model / quant), self.layer(folder / "common")]
            yield Target(hardware, model, quant, [la for la in layers if la is not None])

    def chosen(self, hw, model, quant):
        """The targets that the filters let through: names with commas between, or "*"."""
        def passes(filter_text, name):
            return filter_text == "*" or name == "*" or name in filter_text.split(",")

        known = {t.hardware["name"] for t in self.targets}
        for name in (n for n in hw.split(",") if n != "*"):
            if name not in known:
                fail("-Dkernel_hw",
                     f"there is no class {name}; there are {', '.join(sorted(known))}")
        return [t for t in self.targets if passes(hw, t.hardware["name"]) and
                passes(model, t.model) and passes(quant, t.quant)]


def closure(root, path):
    """A source and what it includes in quotes, and that again: paths from the root, in order.

    Includes are relative to the root or to the file. Both branches of an #if count: the closure may
    be too large, never too small. What stands in <> is the compiler's, whose version is hashed.
    """
    found, queue = [], [path]
    while queue:
        current = queue.pop(0)
        if current in found:
            continue
        found.append(current)
        for name in INCLUDE.findall(current.read_text()):
            places = [p for p in (root / name, current.parent / name) if p.is_file()]
            if not places:
                fail(current.relative_to(root), f"there is no {name} to include")
            queue.append(places[0].resolve())
    return found


def closure_hash(root, path, command, compiler):
    """Hex SHA-256 of all that decides what a source compiles to."""
    digest = hashlib.sha256()
    for text in [compiler, *command]:
        digest.update(text.encode() + b"\0")
    for file in closure(root, path):
        digest.update(str(file.relative_to(root)).encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
