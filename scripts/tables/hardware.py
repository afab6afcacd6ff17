# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hardware classes, kernel families, fusion rules and devices, as C."""

import itertools
import re

from tables.base import fail, nothing_left, quote, row, take


def inherited(parent, own):
    """Entries by name, a class's own in the place of its parent's; `remove = true` drops one."""
    entries = {e["name"]: e for e in parent}
    entries |= {e["name"]: e for e in own}
    return [e for e in entries.values() if not e.get("remove")]


class Hardware:
    """A class: its families and rules, those of its parent included."""

    def __init__(self, out, sources, path):
        self.out, self.where, self.resolved = out, sources.name(path), False
        self.table = sources.load(path)
        self.own = dict(self.table)  # as it stands in the file
        self.name = self.table.get("name")
        if self.name != path.parent.name:
            fail(self.where, f"the folder of class {self.name} has another name")
        self.families = self.entries(sources, path.parent / "common/KERNEL_FAMILIES.toml", "family")
        self.rules = self.entries(sources, path.parent / "common/FUSIONS.toml", "rule")
        self.rule_where = sources.name(path.parent / "common/FUSIONS.toml")

    def entries(self, sources, path, key):
        """A class that takes them from another one may add nothing of its own."""
        given = "parent" in self.table or key == "rule" and "fusions" in self.table
        if given and not path.exists():
            return []
        return sources.load(path)[key]

    def resolve(self, classes, below=()):
        """Takes what it lacks from its parent, its rules from the class that `fusions` names; both
        chains must end."""
        if self in below:
            fail(self.where, "a class can't be its own ancestor")
        if self.resolved:
            return
        parent, rules = (self.table.get(key) for key in ("parent", "fusions"))
        for name in (n for n in (parent, rules) if n is not None):
            if name not in classes:
                fail(self.where, f"there is no class {name}")
            classes[name].resolve(classes, (*below, self))
        if parent:
            self.families = inherited(classes[parent].families, self.families)
        if rules or parent:
            taken = [r for r in classes[rules or parent].rules if self.has_kernel(r)]
            self.rules = inherited(taken, self.rules)
        if parent:
            defaults = classes[parent].table.get("defaults", {}) | self.table.get("defaults", {})
            self.table = classes[parent].table | self.table | {"defaults": defaults}
        self.resolved = True

    def kernels(self):
        return {f["name"]: [p["function"] for p in f["point"]] for f in self.families}

    def has_kernel(self, rule):
        """A rule of another class that launches what this one lacks is none of this class's: a
        circuit that needs it is refused by the operation's name."""
        family, _, function = rule.get("kernel", "").partition(".")
        return function in self.kernels().get(family, [])

    def format(self, name, where):
        if name is None:
            return "MTR_FORMAT_COUNT"
        if name.upper() not in self.out.headers.formats:
            fail(where, f"{name} is no format")
        return "MTR_" + name.upper()

    def scaling(self, name, where):
        if name is None:
            return "MTR_SCALING_NONE"
        if name.upper() not in self.out.headers.scalings:
            fail(where, f"{name} is no scaling")
        return "MTR_SCALING_" + name.upper()

    def number(self, value, where):
        """A number, or the name of a constant of kernels/args without its MTR_."""
        defines = self.out.headers.defines
        if isinstance(value, str) and value not in defines:
            fail(where, f"kernels/args has no constant MTR_{value}")
        return defines.get(value, value)

    def shapes(self, point, where):
        """The compiled forms of a point: [suffix of the function, rows, cols, ...]."""
        keys = ("rows", "cols", "glu_cols", "persistent", "fill", "threads", "shared_bytes")
        if "shapes" not in point:
            numbers = [self.number(take(point, k, where, 0), where)
                       for k in ("tile_rows", "tile_cols", "glu_cols", "per_processor", "threads",
                                 "shared_bytes")]
            return [["", *numbers[:4], 0, *numbers[4:]]]
        shapes = [dict(s) for s in take(point, "shapes", where)]
        numbers = [[self.number(take(s, k, where, 0), where) for k in keys] for s in shapes]
        for shape, n in zip(shapes, numbers):
            blocks = self.number(take(shape, "per_processor", where, 0), where)
            nothing_left(shape, where)
            n[4] = n[4] or n[3]  # a persistent shape's number is its fill
            n[3] = blocks or int(n[3] > 0)
        order = [(n[0], n[4]) for n in numbers]
        if not 1 < len(shapes) <= 8 or order != sorted(set(order)):
            fail(where, "shapes are 2 to 8, each with more rows or more fill than the one before")
        rows = [n[0] for n in numbers]
        again = [rows[:i].count(r) for i, r in enumerate(rows)]
        return [[f"_r{n[0]}" + " bcdefgh"[a].strip(), *n] for n, a in zip(numbers, again)]

    def points(self, family):
        items = []
        for point in family["point"]:
            point = dict(point)
            where = f"{self.where}: family {family['name']}"
            base = take(point, "function", where)
            weights = take(point, "weights", where, [None])
            scalings = take(point, "scalings", where, [None])
            caches = take(point, "caches", where, [None])
            numerics = take(point, "numerics", where)
            rows = take(point, "min_rows", where, 0), take(point, "max_rows", where, 0)
            shapes = self.shapes(point, where)
            bounds = [self.number(take(point, k, where, 0), where)
                      for k in ("max_k", "max_head_dim", "max_group")]
            default = take(point, "default", where, True)
            repack, repack_scales = (take(point, k, where, None)
                                     for k in ("repack", "repack_scales"))
            padding = [take(point, k, where, 0) for k in ("repack_rows", "repack_cols")]
            nothing_left(point, where)
            for weight, scaling, cache in itertools.product(weights, scalings, caches):
                function = "_".join(p for p in (base, weight, scaling, cache) if p)
                policies = (self.format(weight, where), self.scaling(scaling, where),
                            self.format(cache, where))
                compiled = [row(quote(function + suffix), *numbers)
                            for suffix, *numbers in shapes]
                items.append(row(quote(function), *policies, *rows, quote(numerics), default,
                                 len(shapes), row(*compiled), *bounds,
                                 quote(repack and f"{repack}_{weight}"), *padding,
                                 quote(repack_scales)))
        return items

    def family(self, family):
        points = self.points(family)
        return row(quote(family["name"]), quote(family["compute"]), len(points),
                   self.out.array("struct mtr_point", points))

    def pattern(self, text, variables, where):
        match = re.fullmatch(r"(\w+) = (\w+)(?:\((\w+)\))?((?: \w+)*) ->((?: \w+)*)", text.strip())
        if not match:
            fail(where, f"{text!r} is no pattern")
        label, op, role, ins, outs = match.groups()
        sig = self.out.headers.signatures.get(op)
        if sig is None:
            fail(where, f"{op} is no operation")
        ins, outs = ins.split(), outs.split()
        if len(ins) > len(sig["in"]) or len(outs) != len(sig["out"]):
            fail(where, f"{text!r} does not fit the operation's signature")
        index = lambda v: variables.setdefault(v, len(variables))
        return label, sig, row("MTR_OP_" + sig["op"], quote(role), len(ins), len(outs),
                               [index(v) for v in ins], [index(v) for v in outs])

    def rule(self, table):
        table = dict(table)
        name = take(table, "name", self.rule_where)
        where = f"{self.rule_where}: rule {name}"
        variables, labels, nodes = {}, {}, []
        for text in take(table, "match", where):
            label, sig, node = self.pattern(text, variables, where)
            labels[label] = (len(nodes), sig)
            nodes.append(node)
        var = lambda v: variables[v] if v in variables else fail(where, f"no edge {v}")
        ins = [var(v) for v in take(table, "in", where, [])]
        out_names = take(table, "out", where, [])
        alias = take(table, "alias", where, {})
        aliases = [var(alias[v]) if v in alias else "0xff" for v in out_names]
        weights = []
        for text in take(table, "weights", where, []):
            label, _, slot = text.partition(".")
            if label not in labels:
                fail(where, f"no node {label}")
            index, sig = labels[label]
            slots = [s for s, _ in sig["weights"]]
            if slot not in slots:
                fail(where, f"{text}: no such slot")
            weights.append((index, slots.index(slot)))
        sets = []
        for param, value in take(table, "set", where, {}).items():
            number = self.out.headers.constants.get(value, value)
            if param.upper() not in self.out.headers.params or isinstance(number, str):
                fail(where, f"set {param} = {value}")
            sets.append(("MTR_P_" + param.upper(), number))
        tag = take(table, "tag", where)
        proof = take(table, "proof", where, None)
        if tag not in ("reference", "bit_identical", "differs"):
            fail(where, f"{tag} is no tag")
        if (tag == "bit_identical") != (proof is not None):
            fail(where, "bit_identical rules, and only they, name the test that proves it")
        family, _, function = take(table, "kernel", where).partition(".")
        if function not in self.kernels().get(family, []):
            fail(where, f"the class has no kernel {family}.{function}")
        modes = take(table, "modes", where, ["mixed", "decode"])
        mode_bits = sum({"mixed": 1, "decode": 2}[m] for m in modes)
        priority = take(table, "priority", where)
        nothing_left(table, where)
        headers = self.out.headers
        limits = ((ins, headers.launch_in), (out_names, headers.launch_out), (nodes, 8),
                  (weights, headers.launch_weights), (variables, 16), (sets, 4))
        if any(len(have) > most for have, most in limits):
            fail(where, "too many nodes, edges, slots or numbers")
        counts = len(ins), len(out_names), len(weights), len(sets)
        return priority, row(quote(name), priority, "MTR_TAG_" + tag.upper(), quote(proof),
                             mode_bits, quote(family), quote(function), len(nodes),
                             len(variables), nodes, *counts, ins, [var(v) for v in out_names],
                             aliases, weights or [[]], sets or [[]])

    def emit(self):
        table, out = dict(self.table), self.out
        name = take(table, "name", self.where)
        families = [self.family(f) for f in self.families]
        rules = [r for _, r in sorted((self.rule(r) for r in self.rules), key=lambda r: -r[0])]
        formats = [self.format(take(table, k, self.where), self.where)
                   for k in ("activations", "vectors", "cache")]
        words = [quote(take(table, k, self.where, None)) for k in ("vendor", "arch", "parent")]
        defaults = dict(take(table, "defaults", self.where))
        serving = [take(defaults, k, f"{self.where}: [defaults]")
                   for k in ("max_batch_size", "max_prefill_tokens")]
        nothing_left(defaults, f"{self.where}: [defaults]")
        for key in ("fusions", "models", "ptx"):  # resolved, models.py's, gen_kernels.py's
            take(table, key, self.where, None)
        text = row(quote(name), *words, *formats, *serving, len(families), len(rules),
                   out.array("struct mtr_family", families),
                   out.array("struct mtr_fusion_rule", rules))
        nothing_left(table, self.where)
        return text


def device(name, table):
    where = f"kernels/DEVICES.toml: {name}"
    table = dict(table)
    numbers = [float(take(table, k, where, 0)) for k in
               ("memory", "bandwidth", "f32", "bf16", "fp8", "fp4", "reserve")]
    words = [quote(take(table, k, where)) for k in ("title", "hardware")]
    text = row(quote(name), *words, *numbers, quote(take(table, "source", where)))
    nothing_left(table, where)
    return text


