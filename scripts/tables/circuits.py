# SPDX-License-Identifier: MIT OR Apache-2.0
"""Circuits and their blocks, as C."""

import re

from tables.base import fail, nothing_left, quote, row, take


class Circuit:
    """One circuit with the files that its blocks come from."""

    def __init__(self, out, sources, path):
        self.out, self.where = out, sources.name(path)
        table = sources.load(path)
        self.name = take(table, "name", self.where)
        self.title = take(table, "title", self.where)
        self.logits = take(table, "logits", self.where)
        parts = {k: {} for k in ("edge", "weight", "block", "cache", "state", "table")}
        self.merge(parts, table, self.where)
        for file in take(table, "blocks", self.where):
            block_path = path.parent / "blocks" / (file + ".toml")
            block = sources.load(block_path)
            self.merge(parts, block, sources.name(block_path))
            nothing_left(block, sources.name(block_path))
        self.parts = parts
        layout = take(table, "layout", self.where)
        self.pre, self.post = take(layout, "pre", self.where), take(layout, "post", self.where)
        nothing_left(layout, self.where)
        self.kinds = take(table, "layer", self.where)
        nothing_left(table, self.where)
        self.index = {k: {n: i for i, n in enumerate(v)} for k, v in parts.items()}

    def merge(self, parts, table, where):
        for part, have in parts.items():
            for name, value in table.pop(part, {}).items():
                if name in have:
                    fail(where, f"{part} {name} is defined twice")
                have[name] = value

    def find(self, part, name, where):
        if name not in self.index[part]:
            fail(where, f"there is no {part} {name}")
        return self.index[part][name]

    def edge(self, name, text):
        words = text.split()
        where = f"{self.where}: edge {name}"
        if len(words) not in (2, 3) or words[0].upper() not in self.out.headers.rows:
            fail(where, f"{text!r} is not 'rows columns [format]'")
        fmt = "MTR_FORMAT_COUNT"
        if len(words) == 3:
            if words[2].upper() not in self.out.headers.formats:
                fail(where, f"{words[2]} is no format")
            fmt = "MTR_" + words[2].upper()
        cols = self.out.expr(words[1], where)
        return row(quote(name), "MTR_ROWS_" + words[0].upper(), fmt, cols)

    def weight(self, role, words):
        """[safetensors name, GGUF name, rows of a matrix, columns, matrices of a stack]; "!" behind
        a name: bare."""
        where = f"{self.where}: weight {role}"
        if len(words) not in (3, 4, 5):
            fail(where, "needs two names, rows if it is a matrix, columns, and a stack's height")
        stack = self.out.expr(words[4] if len(words) == 5 else None, where)
        hf, gguf, *shape = words[:4]
        rows = self.out.expr(shape[0] if len(shape) == 2 else None, where)
        cols = self.out.expr(shape[-1], where)
        names = quote(hf.rstrip("!") or None), quote(gguf.rstrip("!") or None)
        return row(quote(role), *names, rows, cols, stack, hf.endswith("!"))

    def edges_of(self, words, signature, limit, where):
        names = words.split()
        needed = sum(not optional for _, optional in signature)
        if not needed <= len(names) <= len(signature) or len(names) > limit:
            fail(where, f"{len(names)} edges where the operation has {len(signature)}")
        return ["MTR_NONE" if n == "_" else str(self.find("edge", n, where)) for n in names]

    MEMORY = {"NONE": None, "CACHE": "cache", "STATE": "state", "CONSTANT": "table"}
    NODE = re.compile(r"(\w+) = (\w+)(?:\((\w+)\))?((?: \w+)*) ->((?: \w+)*)")

    def parse(self, block, text):
        """name = op(role) inputs -> outputs; entry = value; entry (which is its own value)."""
        wiring, *entries = [part.strip() for part in text.split(";")]
        match = self.NODE.fullmatch(wiring)
        if not match:
            fail(f"{self.where}: block {block}", f"{text!r} is no node")
        table = {}
        for entry in entries:
            key, _, value = entry.partition("=")
            table[key.strip()] = value.strip() or key.strip()
        return *match.groups(), table

    def bindings(self, node, signature, where):
        """Slots of a node: slot = ROLE [if SWITCH]; bias = SWITCH: the bias of the weight."""
        slots = []
        main = None
        for slot, optional in signature["weights"]:
            value = node.pop(slot, None)
            if slot == "bias" and main is not None and value is not None:
                slots.append((main, True, self.out.expr(value, where)))
                continue
            if value is None:
                if not optional:
                    fail(where, f"weight slot {slot} is not bound")
                slots.append(("MTR_NONE", False, self.out.expr(None, where)))
                continue
            role, _, when = value.partition(" if ")
            index = self.find("weight", role, where)
            main = index if main is None else main
            slots.append((index, False, self.out.expr(when or None, where)))
        while slots and slots[-1][0] == "MTR_NONE":
            slots.pop()
        return slots

    def node(self, block, text):
        name, op, role, ins, outs, node = self.parse(block, text)
        where = f"{self.where}: {block}.{name}"
        if op not in self.out.headers.signatures:
            fail(where, f"{op} is no operation")
        sig = self.out.headers.signatures[op]
        slots = [slot for slot, _ in sig["weights"]]
        if "weight" in slots and name in self.index["weight"]:
            node.setdefault("weight", name)
        ins = self.edges_of(ins, sig["in"], self.out.headers.node_in, where)
        outs = self.edges_of(outs, sig["out"], self.out.headers.node_out, where)
        when = take(node, "when", where, None)
        if op == "linear" and role is None:
            fail(where, "a linear has a role")
        bindings = self.bindings(node, sig, where)
        params = []
        for param, optional in sig["params"]:
            value = node.pop(param, None)
            if value is not None:
                params.append(("MTR_P_" + param.upper(), self.out.expr(value, where)))
            elif not optional:
                fail(where, f"parameter {param} is missing")
        if len(params) > self.out.headers.node_params:
            fail(where, "too many parameters")
        memory = self.MEMORY[sig["memory"]]
        index = "MTR_NONE"
        if memory:
            index = self.find(memory, take(node, memory, where), where)
        nothing_left(node, where)
        counts = len(ins), len(outs), len(bindings), len(params)
        return row("MTR_OP_" + sig["op"], quote(name), quote(role), self.out.expr(when, where),
                   *counts, ins, outs, bindings or [[]], params or [[]], index)

    def check_flow(self):
        """Every edge that a node reads was written before it, in every layer kind."""
        have = set()
        sequences = [self.pre, *[k["blocks"] for k in self.kinds.values()], self.post]
        for sequence in sequences:
            for block in (name.partition(" if ")[0] for name in sequence):
                self.find("block", block, self.where)
                for text in self.parts["block"][block]["nodes"]:
                    name, _, _, ins, outs, _ = self.parse(block, text)
                    for edge in ins.split():
                        if edge != "_" and edge not in have:
                            fail(f"{self.where}: {block}.{name}", f"{edge} is read before written")
                    have |= set(outs.split())
        if self.logits not in have:
            fail(self.where, f"nothing writes {self.logits}")

    def kind(self, name, table):
        where = f"{self.where}: layer {name}"
        table = dict(table)
        blocks = [row(self.find("block", b, where), self.out.expr(when or None, where))
                  for b, _, when in (t.partition(" if ") for t in take(table, "blocks", where))]
        renames = [row(self.out.symbol(s), self.out.expr(e, where))
                   for s, e in take(table, "dims", where, {}).items()]
        nothing_left(table, where)
        return row(quote(name), len(blocks), len(renames),
                   self.out.array("struct mtr_kind_block", blocks),
                   self.out.array("struct mtr_rename_def", renames))

    def cache(self, name, table):
        where = f"{self.where}: cache {name}"
        kind = table["kind"].upper()
        if kind not in self.out.headers.caches:
            fail(where, f"{table['kind']} is no kind of cache")
        parts = [self.out.expr(table.get(k, d), where)
                 for k, d in (("kv_heads", "1"), ("head_dim", None), ("window", "0"))]
        return row(quote(name), "MTR_CACHE_" + kind, *parts)

    def state(self, name, table):
        where = f"{self.where}: state {name}"
        kind = table["kind"].upper()
        if kind not in self.out.headers.states:
            fail(where, f"{table['kind']} is no kind of state")
        return row(quote(name), "MTR_STATE_" + kind, self.out.expr(table["bytes"], where))

    def block(self, name, table):
        nodes = [self.node(name, n) for n in table["nodes"]]
        return row(quote(name), len(nodes), self.out.array("struct mtr_node_def", nodes))

    def table(self, name, prefix):
        return row(quote(name), quote(prefix))

    def emit(self):
        self.check_flow()
        arrays = {}
        for part, items in self.parts.items():
            rows = [getattr(self, part)(name, value) for name, value in items.items()]
            arrays[part] = self.out.array(f"struct mtr_{part}_def", rows)
        kinds = [self.kind(n, t) for n, t in self.kinds.items()]
        order = [self.out.array("uint16_t", [str(self.index["block"][n]) for n in names])
                 for names in (self.pre, self.post)]
        count = {part: len(items) for part, items in self.parts.items()}
        return row(quote(self.name), quote(self.title), count["edge"], count["weight"],
                   count["block"], len(kinds), len(self.pre), len(self.post), count["cache"],
                   count["state"], count["table"], arrays["edge"], arrays["weight"],
                   arrays["block"], self.out.array("struct mtr_kind_def", kinds), *order,
                   arrays["cache"], arrays["state"], arrays["table"], quote(self.logits))
