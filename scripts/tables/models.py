# SPDX-License-Identifier: MIT OR Apache-2.0
"""MODEL.toml of kernels/<class>/<model>/, as C (common/circuit/target.h)."""

from tables.base import fail, nothing_left, quote, row, take

NUMBERS = {"temperature": (0, 5), "top_p": (0, 1), "min_p": (0, 1), "repetition_penalty": (0.1, 5)}


class Model:
    def __init__(self, out, sources, path):
        self.out, self.where, self.name = out, sources.name(path), path.parent.name
        table = dict(sources.load(path))
        self.matches = [self.match(dict(m)) for m in take(table, "match", self.where)]
        self.sampling = self.numbers(dict(take(table, "sampling", self.where, {})))
        self.variables = [row(quote(k), v) for k, v in
                          take(table, "behaviour", self.where, {}).items() if self.is_flag(k, v)]
        nothing_left(table, self.where)
        if not self.matches:
            fail(self.where, "it matches nothing")

    def match(self, table):
        kind = take(table, "model_type", self.where, None)
        size = take(table, "hidden_size", self.where, 0)
        names = take(table, "names", self.where, [])
        nothing_left(table, f"{self.where}: [[match]]")
        if any(n != n.lower() or not n for n in names):
            fail(self.where, "names are in lower case")
        if not isinstance(size, int) or size < 0:
            fail(self.where, f"hidden_size = {size!r}")
        return row(quote(None if kind == "*" else kind), size, len(names),
                   self.out.strings(names))

    def numbers(self, table):
        found = []
        for key, (low, high) in NUMBERS.items():
            value = take(table, key, self.where, -1.0)
            if value != -1.0 and not low <= value <= high:
                fail(self.where, f"{key} = {value} is not in [{low}, {high}]")
            found.append(float(value))
        top_k = take(table, "top_k", self.where, -1)
        nothing_left(table, f"{self.where}: [sampling]")
        return [*found, top_k]

    def is_flag(self, key, value):
        return isinstance(value, bool) or fail(self.where, f"{key} is not true or false")

    def emit(self, hardware):
        return row(quote(hardware), quote(self.name), len(self.matches), len(self.variables),
                   self.out.array("struct mtr_target_match", self.matches),
                   self.out.array("struct mtr_target_variable", self.variables), *self.sampling)


def models(out, sources, root, classes):
    """Rows of every class: its own models, then those of its ancestors that it lacks. A class may
    take another one's with `models = "gb10"`."""
    own = {name: {} for name in classes}
    for path in sorted(root.glob("kernels/*/*/MODEL.toml")):
        own[path.parent.parent.name][path.parent.name] = Model(out, sources, path)

    def of(name):
        table = classes[name].own
        below = [table[key] for key in ("parent", "models") if key in table]
        found = {}
        for other in below:
            if other not in classes:
                fail(classes[name].where, f"there is no class {other}")
            found |= own[other] if other == table.get("models") else of(other)
        return found | own[name]

    return [model.emit(name) for name in classes for _, model in sorted(of(name).items())]
