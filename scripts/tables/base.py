# SPDX-License-Identifier: MIT OR Apache-2.0
"""What all parts of the generator use: mistakes, C text, the C headers, expressions."""

import ast
import re
import tomllib

MISSING = object()


class Mistake(Exception):
    """Something in the TOML files that can't be right."""


def fail(where, text):
    raise Mistake(f"{where}: {text}")


def quote(text):
    """A C string literal, or NULL."""
    if text is None:
        return "NULL"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def row(*parts):
    """A C initializer; numbers as they are, truth values as C has them, lists nested."""
    def text(part):
        if isinstance(part, bool):
            return "true" if part else "false"
        if isinstance(part, (list, tuple)):
            return row(*part) if part else "{0}"
        return part if isinstance(part, str) else repr(part)

    return "{" + ", ".join(text(p) for p in parts) + "}"


class Headers:
    """Enumerations and the signature table, read from the C sources that own them."""

    def __init__(self, root):
        plan = (root / "common/circuit/plan.h").read_text()
        ir = (root / "common/circuit/ir.h").read_text()
        self.params = self.enum(plan, "mtr_param", "MTR_P_")
        self.acts = self.enum(plan, "mtr_activation", "MTR_ACT_")
        self.rows = self.enum(plan, "mtr_rows", "MTR_ROWS_")
        self.caches = self.enum(plan, "mtr_cache_kind", "MTR_CACHE_")
        self.states = self.enum(plan, "mtr_state_kind", "MTR_STATE_")
        self.ops = self.enum(ir, "mtr_op", "MTR_OP_")
        self.scalings = self.enum(ir, "mtr_scaling", "MTR_SCALING_")
        formats = (root / "common/numeric/format.h").read_text()
        self.formats = self.enum(formats, "mtr_format", "MTR_")
        args = "".join(p.read_text() for p in sorted((root / "kernels/args").glob("*.h")))
        self.defines = {n: int(v) for n, v in re.findall(r"#define MTR_(\w+)\s+(\d+)", args)}
        epilogues = self.enum((root / "kernels/args/linear.h").read_text(), "mtr_epilogue",
                              "MTR_EPILOGUE_")
        self.constants = {"ACT_" + k: v for k, v in self.acts.items()}
        self.constants |= {"EPILOGUE_" + k: v for k, v in epilogues.items()}
        scores = self.enum(plan, "mtr_scoring", "MTR_SCORE_")
        self.constants |= {"SCORE_" + k: v for k, v in scores.items()}
        self.signatures = self.read_signatures((root / "common/circuit/ir.c").read_text())
        limit = lambda name: int(re.search(rf"#define {name}\s+(\d+)", ir + plan).group(1))
        self.node_in, self.node_out = limit("MTR_NODE_IN"), limit("MTR_NODE_OUT")
        self.node_weights, self.node_params = limit("MTR_NODE_WEIGHTS"), limit("MTR_NODE_PARAMS")
        self.launch_in, self.launch_out = limit("MTR_LAUNCH_IN"), limit("MTR_LAUNCH_OUT")
        self.launch_weights = limit("MTR_LAUNCH_WEIGHTS")

    @staticmethod
    def enum(text, name, prefix):
        body = re.search(rf"enum {name} \{{(.*?)\}}", text, re.S).group(1)
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        names = [n.strip() for n in body.split(",") if n.strip()]
        return {n.removeprefix(prefix): i for i, n in enumerate(names) if not n.endswith("_COUNT")}

    def read_signatures(self, text):
        found = {}
        for op, entry in re.findall(r"^ +\[MTR_OP_(\w+)\] =\s*\{(.*?)\}", text, re.S | re.M):
            name, *lists = re.findall(r'"([^"]*)"', entry)
            memory = re.search(r"MTR_MEM_(\w+)", entry).group(1)
            words = [[(w.rstrip("?"), w.endswith("?")) for w in column.split()] for column in lists]
            found[name] = dict(zip(("in", "out", "weights", "params"), words), memory=memory, op=op)
            for param, _ in words[3]:
                if param.upper() not in self.params:
                    fail("ir.c", f"operation {name} has an unknown parameter {param}")
        if {s["op"] for s in found.values()} != set(self.ops):
            fail("ir.c", "the signature table does not cover enum mtr_op")
        return found


class Emitter:
    """C text and the symbol table."""

    def __init__(self, headers):
        self.headers = headers
        self.symbols = {}
        self.body = []
        self.count = 0
        self.cache = {}

    def symbol(self, name):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            fail("symbol", f"{name!r} is no symbol")
        return self.symbols.setdefault(name, len(self.symbols))

    def array(self, ctype, items):
        """Emits a static array and returns its name, NULL when empty."""
        if not items:
            return "NULL"
        text = ",\n    ".join(items)
        key = (ctype, text)
        if key not in self.cache:
            self.count += 1
            self.cache[key] = f"t{self.count}"
            self.body.append(f"static const {ctype} t{self.count}[] = {{\n    {text},\n}};\n")
        return self.cache[key]

    def strings(self, items):
        return self.array("char *const", [quote(i) for i in items])

    def expr(self, text, where):
        if text is None:
            return "{NULL, 0, NULL}"
        text = str(text).strip()
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            fail(where, f"{text!r} is no expression")
        steps = []
        depth = self.walk(tree, steps, where)
        if depth > 8:
            fail(where, f"{text!r} needs a deeper stack")
        rows = [row("MTR_EXPR_" + op, symbol, value) for op, symbol, value in steps]
        name = self.array("struct mtr_expr_step", rows)
        return row(quote(text), len(steps), name)

    BINARY = {ast.Add: "ADD", ast.Sub: "SUB", ast.Mult: "MUL", ast.Div: "DIV",
              ast.FloorDiv: "FLOOR_DIV", ast.Mod: "MOD"}
    COMPARE = {ast.Eq: ("EQ", 0), ast.NotEq: ("NE", 0), ast.Lt: ("LT", 0), ast.LtE: ("LE", 0),
               ast.Gt: ("LT", 1), ast.GtE: ("LE", 1)}

    def walk(self, node, steps, where):
        """Appends the node's steps; returns the stack it needs."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            steps.append(("CONST", 0, float(node.value)))
            return 1
        if isinstance(node, ast.Name):
            if node.id in self.headers.constants:
                steps.append(("CONST", 0, float(self.headers.constants[node.id])))
            else:
                steps.append(("SYMBOL", self.symbol(node.id), 0.0))
            return 1
        if isinstance(node, ast.BinOp) and type(node.op) in self.BINARY:
            parts, op = [node.left, node.right], self.BINARY[type(node.op)]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
            parts, op = [node.operand], "NEG" if isinstance(node.op, ast.USub) else "NOT"
        elif isinstance(node, ast.BoolOp):
            op = "AND" if isinstance(node.op, ast.And) else "OR"
            need = self.walk(node.values[0], steps, where)
            for value in node.values[1:]:
                need = max(need, 1 + self.walk(value, steps, where))
                steps.append((op, 0, 0.0))
            return need
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in self.COMPARE:
            if len(node.ops) != 1:
                fail(where, "comparisons can't be chained")
            op, swap = self.COMPARE[type(node.ops[0])]
            parts = [node.left, node.comparators[0]]
            parts = parts[::-1] if swap else parts
        elif isinstance(node, ast.IfExp):
            parts, op = [node.test, node.body, node.orelse], "IF"
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "sqrt":
            parts, op = node.args, "SQRT"
        else:
            fail(where, f"an expression can't contain {ast.unparse(node)!r}")
        need = max(i + self.walk(p, steps, where) for i, p in enumerate(parts))
        steps.append((op, 0, 0.0))
        return need


def take(table, key, where, default=MISSING):
    if key in table:
        return table.pop(key)
    if default is MISSING:
        fail(where, f"{key} is missing")
    return default


def nothing_left(table, where):
    if table:
        fail(where, f"unknown entry {next(iter(table))}")


class Sources:
    """TOML files, remembered for the dependency file."""

    def __init__(self, root):
        self.root = root
        self.read = []

    def load(self, path):
        self.read.append(path)
        try:
            return tomllib.loads(path.read_text())
        except FileNotFoundError:
            fail(path, "no such file")
        except tomllib.TOMLDecodeError as error:
            fail(path, str(error))

    def name(self, path):
        return str(path.relative_to(self.root))


