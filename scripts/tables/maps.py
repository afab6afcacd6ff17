# SPDX-License-Identifier: MIT OR Apache-2.0
"""Config maps, as C."""

from tables.base import fail, nothing_left, quote, row, take


def merged(base, over):
    """Tables merged key by key, the second one winning."""
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = {**result[key], **value} if both else value
    return result


class ConfigMap:
    """One map: its keys, defaults and checks for both kinds of document."""

    CLASSES = ("dim", "real", "switch", "choice", "require", "ignore", "token", "nested", "layers",
               "members", "dtype", "quant", "type")

    def __init__(self, out, sources, path, circuits):
        self.out, self.where = out, sources.name(path)
        table = sources.load(path)
        base = self.included(sources, path.parent, take(table, "include", self.where))
        self.name = take(table, "name", self.where)
        circuit = take(table, "circuit", self.where)
        if circuit not in circuits:
            fail(self.where, f"there is no circuit {circuit}")
        self.circuit_index = list(circuits).index(circuit)
        self.circuit = circuits[circuit]
        self.lists = base.pop("values", {}) | table.pop("values", {})
        self.nested = merged(base.pop("nested", {}), table.pop("nested", {}))
        self.hf = merged(base.pop("hf"), take(table, "hf", self.where))
        self.gguf = merged(base.pop("gguf"), take(table, "gguf", self.where))
        nothing_left(table, self.where)
        nothing_left(base, self.where)

    def included(self, sources, folder, names):
        """The parts of maps that a map begins with, the later ones winning."""
        base = {}
        for name in names if isinstance(names, list) else [names]:
            for part, table in sources.load(folder / (name + ".config.toml")).items():
                base[part] = merged(base.get(part, {}), table)
        return base

    def kinds(self, part):
        """Kinds of layers where no key lists them: the first whose condition on `layer` holds."""
        items = []
        for kind, text in part.pop("kinds", {}).items():
            where = f"{self.where}: kinds {kind}"
            if kind not in self.circuit.kinds:
                fail(where, f"the circuit has no layers of kind {kind}")
            items.append(row(list(self.circuit.kinds).index(kind), self.out.expr(text, where)))
        return len(items), self.out.array("struct mtr_kind_rule", items)

    def value(self, raw, number, where, missing=None):
        """One allowed value as C."""
        if raw == "null":
            kind, text, num = "NULL", None, 0
        elif isinstance(raw, bool):
            kind, text, num = "BOOL", None, int(raw)
        elif isinstance(raw, int):
            kind, text, num = "INT", None, raw
        elif isinstance(raw, float):
            kind, text, num = "REAL", None, raw
        elif isinstance(raw, str):
            kind, text, num = "STRING", raw, 0
        else:
            fail(where, f"{raw!r} can't be a value")
        return row("MTR_JSON_" + kind, quote(text), num, number, quote(missing))

    def values(self, cls, spec, table, where):
        if cls == "require":
            return [self.value(v, 0, where) for v in spec]
        listed = self.lists[take(table, "values", where)] if cls == "choice" else spec
        result = []
        for raw, meaning in listed.items():
            raw = int(raw) if cls == "layers" and raw.isdigit() else raw
            if cls == "layers":
                kinds = list(self.circuit.kinds)
                number = kinds.index(meaning) if meaning in kinds else None
            elif isinstance(meaning, str):
                number = self.out.headers.constants.get(meaning)
            else:
                number = meaning
            if number is None:
                fail(where, f"{meaning} is unknown")
            result.append(self.value(raw, number, where))
        return result

    def key(self, name, table):
        where = f"{self.where}: key {name}"
        table = dict(table)
        cls = next((c for c in self.CLASSES if c in table), None)
        if cls is None:
            fail(where, "has no class")
        spec = table.pop(cls)
        key, _, variant = name.partition("@")
        symbol = "MTR_NONE"
        if cls in ("dim", "real", "switch", "members"):
            symbol = self.out.symbol(spec)
        elif cls == "choice":
            symbol = self.out.symbol(spec)
        listed = cls in ("choice", "require", "layers")
        values = self.values(cls, spec, table, where) if listed else []
        if cls in ("dim", "real") and "null" in table:
            values = [self.value("null", table.pop("null"), where)]
        note = spec if cls == "ignore" else take(table, "missing", where, None)
        within = cls == "nested" and spec == "document"
        nested = f"&{self.nested_names[spec]}" if cls == "nested" and not within else "NULL"
        low = take(table, "min", where, 1 if cls == "dim" else 0)
        high = take(table, "max", where, 0)
        if cls in ("dim", "real") and not high:
            fail(where, "has no max")
        required = take(table, "required", where, False)
        nothing_left(table, where)
        prefix = key.endswith(".*")
        key = key[:-1] if prefix else key
        return row(quote(key), "MTR_KEY_" + cls.upper(), prefix, required, symbol, float(low),
                   float(high), len(values), self.out.array("struct mtr_key_value", values), nested,
                   quote(variant or None), quote(note))

    def keys(self, title, table):
        items = [self.key(n, t) for n, t in table.items()]
        return row(quote(title), len(items), self.out.array("struct mtr_key", items))

    def derived(self, part):
        items = []
        for group, flag in (("default", True), ("derive", False)):
            for name, text in part.pop(group, {}).items():
                name, _, variant = name.partition("@")
                where = f"{self.where}: {group} {name}"
                items.append(row(self.out.symbol(name), flag, quote(variant or None),
                                 self.out.expr(text, where)))
        return len(items), self.out.array("struct mtr_derived", items)

    def presence(self, part):
        items = []
        for name, table in part.pop("presence", {}).items():
            absent = "absent" in table
            tensor = table["absent" if absent else "present"]
            items.append(row(self.out.symbol(name), absent, quote(tensor)))
        return len(items), self.out.array("struct mtr_presence", items)

    def document(self, title, part):
        part = dict(part)
        types = take(part, "types", self.where)
        within = take(part, "types_within", self.where, [])
        kind_count, kinds = self.kinds(part)
        architectures = take(part, "architectures", self.where, [])
        derived_count, derived = self.derived(part)
        presence_count, presence = self.presence(part)
        checks = [row(self.out.expr(c, self.where), quote(m))
                  for c, m in part.pop("check", {}).items()]
        keys = self.keys(title, take(part, "key", self.where))
        module = take(part, "module", self.where, "")
        nothing_left(part, self.where)
        return row(quote(title), len(types), len(within), len(architectures), derived_count,
                   presence_count, len(checks), kind_count, self.out.strings(types),
                   self.out.strings(within), self.out.strings(architectures), keys, derived,
                   presence, self.out.array("struct mtr_check", checks), kinds, quote(module))

    def emit(self):
        self.nested_names = {}
        for name, table in self.nested.items():
            text = self.keys(name, table)
            self.nested_names[name] = variable = f"nested_{self.name}_{name}"
            self.out.body.append(f"static const struct mtr_key_map {variable} = {text};\n")
        hf = self.document("config.json", self.hf)
        gguf = self.document("GGUF metadata", self.gguf)
        return row(quote(self.name), f"&circuits[{self.circuit_index}]", hf, gguf)


