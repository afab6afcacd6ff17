#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The law of the code, as far as a program can hold it.

usage: tidy.py [--draft | --dead | --untested] [ROOT]

Prints one line per violation, "path:line: rule: what", and exits with 1 if there is any. --draft
leaves out what only holds for finished work (declarations without a user). --dead lists
what only unit tests use, --untested what has no unit test. The rules are the functions in RULES, at
the end; their data stands here, at the beginning. A rule that has to yield somewhere gets an entry
in a table with its reason.
"""
import collections
import os
import re
import subprocess
import sys

COLUMNS = 100
FILE_LINES = 700
FUNCTION_LINES = 120
USUAL_FUNCTION_LINES = 50  # nine of ten functions are shorter
LONG_SHARE = 0.10

SKIP_FOLDERS = re.compile(r"^(build.*|\.git|\.cache|__pycache__|oracle)$")
DATA = re.compile(r"^tests/(golden|data|fuzz/corpus)/|^LICENSE")
C_FILE = re.compile(r"\.(c|h|cu|cuh)$")
SPDX_FILE = re.compile(r"\.(c|h|cu|cuh|py|sh|toml|proto)$|(^|/)meson(\.build|_options\.txt)$")
NARROW_FILE = re.compile(r"\.(c|h|cu|cuh|py|sh|toml|proto|build)$|^scripts/|^\.ci/")

BANNED = {
    "strcpy": "memcpy with a checked length",
    "strncpy": "memcpy with a checked length",
    "strcat": "struct mtr_buf",
    "strncat": "struct mtr_buf",
    "stpcpy": "memcpy with a checked length",
    "sprintf": "snprintf",
    "vsprintf": "vsnprintf",
    "gets": "fgets",
    "atoi": "mtr_str_to_i64",
    "atol": "mtr_str_to_i64",
    "atoll": "mtr_str_to_i64",
    "atof": "mtr_str_to_f64",
    "strtok": "strcspn",
    "alloca": "an arena",
    "setlocale": "nothing: numbers are read in the C locale",
    "rand": "mtr_philox",
    "srand": "mtr_philox",
    "system": "posix_spawn",
    "tmpnam": "mkstemp",
}

# In these folders memory is taken and given back only by functions whose name says that they run
# outside the step loop.
LOOP_FOLDERS = ("worker/exec/", "kernels/host/")
ALLOCATORS = re.compile(
    r"\b(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|mmap|munmap)\s*\(")
OUTSIDE_LOOP = re.compile(
    r"(init|new|create|make|open|load|start|setup|prepare|grow|reserve|free|destroy|close|stop"
    r"|release|build|bind|(un)?resolve|main)(_|$)|_(alloc|take)")

# What a program may include, and in which order its rooms stand: a room sees those before it.
PROGRAMS = {
    "common": ("common",),
    "kernels": ("common", "kernels"),
    "worker": ("common", "kernels", "worker"),
    "broker": ("common", "broker"),
    "ctl": ("common", "kernels", "ctl"),
    "tests": ("common", "kernels", "worker", "broker", "ctl", "tests"),
}
ROOMS = {
    "common": ["base", "numeric", "checkpoint", "config", "circuit", "wire"],
    "kernels": ["args", "host", "images"],
    "worker": ["backend", "comm", "weights", "ops", "exec"],
    "broker": ["text", "store", "api", "parse", "grammar", "sched", "telemetry", "engine", "http"],
}

PURE_ROOMS = ("broker/sched/", "broker/parse/", "broker/text/", "broker/grammar/",
              "common/circuit/", "worker/ops/")
# A pure room may not include these, not even through a header of the project.
IO_HEADERS = re.compile(
    r"^(sys/(?!types\.h|cdefs\.h|param\.h).*|pthread\.h|threads\.h|time\.h|fcntl\.h|unistd\.h"
    r"|poll\.h|signal\.h|dlfcn\.h|dirent\.h|spawn\.h|netinet/.*|arpa/.*|netdb\.h|zmq\.h"
    r"|h2o(/.*|\.h)|cuda.*|sqlite3\.h)$")
# Nor these directly; another header may need their types.
IO_OWN_HEADERS = re.compile(r"^common/(base/(file|log|clock)|wire/(socket|zap))\.h$")
IO_CALLS = re.compile(
    r"\b(fopen|fdopen|freopen|fread|fwrite|fgets|fputs|fputc|puts|putchar|printf|fprintf|vprintf"
    r"|vfprintf|perror|open|read|write|close|getenv|setenv|clock|time|clock_gettime|nanosleep|sleep"
    r"|usleep|pthread_\w+|thrd_\w+|fork|exec\w+|dlopen|FILE)\b\s*[(*]")

# The letters in brackets keep this file from finding itself.
FOREIGN = re.compile(
    r"/[w]ork/|/[f]arm/|\.[l]ibrary\b|[f]arm-(bench|studio)|\b[s]ub-?agents?\b|[h]elper session"
    r"|[d]eveloper session|/tmp/[p]eers|[p]ypi\.org|[p]ythonhosted\.org|[d]eb\.debian\.org"
    r"|[r]egistry\.npmjs|[p]orts\.ubuntu\.com|[a]rchive\.ubuntu\.com")
UNFINISHED = re.compile(r"\b([T]ODO|[F]IXME|[X]XX)\b|[n]ot implemented yet")

ENTRY_POINTS = re.compile(r"^(main|LLVMFuzzerTestOneInput|LLVMFuzzerInitialize)$")


class Source:
    """A file, its text, and for C its text without comments and string contents."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.split("\n")
        self.is_c = bool(C_FILE.search(path))
        self.is_test = path.startswith("tests/")
        self.code = blank(text) if self.is_c else text
        self._functions = None

    def line_of(self, offset):
        return self.text.count("\n", 0, offset) + 1

    def functions(self):
        """(name, first line, last line, body text) of each function defined here."""
        if self._functions is None:
            self._functions = list(find_functions(self.code)) if self.is_c else []
        return self._functions


TOKENS = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def blank(text):
    """Replaces comments by blanks and string contents by nothing; keeps every line where it is."""

    def replacement(match):
        token = match.group()
        if token[0] in "\"'":
            return token[0] + " " * (len(token) - 2) + token[0]
        return re.sub(r"[^\n]", " ", token)

    return TOKENS.sub(replacement, text)


FUNCTION_HEAD = re.compile(r"^(?:[A-Za-z_][^\n;{}=]*?[\s*])?(\w+)\s*\(", re.M)


def find_functions(code):
    """Functions in this project's layout: the head begins in column 0, the braces stand alone."""
    lines = code.split("\n")
    for opening, line in enumerate(lines):
        if line.rstrip() != "{":
            continue
        first = opening - 1
        while first > 0 and (not lines[first] or lines[first][0] in " \t)"):
            first -= 1
        head = "\n".join(lines[first:opening])
        match = FUNCTION_HEAD.match(head)
        last = next((i for i in range(opening, len(lines)) if lines[i].startswith("}")), None)
        if match and last is not None and lines[last].rstrip() == "}":
            yield match.group(1), first + 1, last + 1, "\n".join(lines[opening : last + 1])


class Tree:
    def __init__(self, root):
        self.root = root
        self.sources = []
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(f for f in folders if not SKIP_FOLDERS.match(f))
            for name in sorted(files):
                path = os.path.relpath(os.path.join(folder, name), root)
                text = read_text(os.path.join(folder, name))
                if text is not None and not DATA.search(path):
                    self.sources.append(Source(path, text))
        self.by_path = {s.path: s for s in self.sources}
        self.c = [s for s in self.sources if s.is_c]


def read_text(path):
    """The text of a file; None for what is no text (or a work tree's link file)."""
    if os.path.basename(path) == ".git" or not os.path.isfile(path):
        return None
    with open(path, "rb") as f:
        data = f.read()
    if b"\0" in data[:8192]:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


# ---- rules: each yields (path, line, rule, what) ----


def check_text(tree):
    for s in tree.sources:
        for number, line in enumerate(s.lines, 1):
            if line != line.rstrip():
                yield s.path, number, "space", "white space at the end of the line"
            if "\t" in line and not s.path.endswith((".gitmodules", "Makefile", ".tsv")):
                yield s.path, number, "tab", "tabs are four spaces"
            if NARROW_FILE.search(s.path) and len(line) > COLUMNS:
                yield s.path, number, "columns", f"{len(line)} columns, at most {COLUMNS}"
        if s.text and not s.text.endswith("\n"):
            yield s.path, len(s.lines), "newline", "no newline at the end of the file"


def check_words(tree):
    for s in tree.sources:
        for number, line in enumerate(s.lines, 1):
            found = FOREIGN.search(line)
            if found:
                yield s.path, number, "foreign", f"'{found.group()}' does not belong in the product"
            found = UNFINISHED.search(line)
            if found:
                yield s.path, number, "unfinished", f"'{found.group()}': finish it"


def check_spdx(tree):
    for s in tree.sources:
        if SPDX_FILE.search(s.path) or s.text.startswith("#!"):
            head = s.lines[1:2] if s.text.startswith("#!") else s.lines[:1]
            if not head or "SPDX-License-Identifier: MIT OR Apache-2.0" not in head[0]:
                yield s.path, 1, "spdx", "the first line must be the SPDX line"


def check_syntax(tree):
    """Scripts that run seldom must at least parse."""
    for s in tree.sources:
        if s.path.endswith(".py") or re.match(r"#!.*\bpython3?\b", s.text):
            try:
                compile(s.text, s.path, "exec")
            except SyntaxError as e:
                yield s.path, e.lineno or 1, "syntax", str(e.msg)
        elif re.match(r"#!.*\b(ba)?sh\b", s.text):
            done = subprocess.run(["bash", "-n"], input=s.text, capture_output=True, text=True)
            if done.returncode:
                yield s.path, 1, "syntax", done.stderr.strip().replace("\n", "; ")


def check_executable(tree):
    for s in tree.sources:
        if s.text.startswith("#!") and not os.access(os.path.join(tree.root, s.path), os.X_OK):
            yield s.path, 1, "executable", "begins with #! and has no run bit"


def check_file_length(tree):
    for s in tree.c:
        if len(s.lines) - 1 > FILE_LINES:
            yield s.path, len(s.lines), "file-length", f"more than {FILE_LINES} lines: two things?"


CALL = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
LEAVE = re.compile(r"(?<![\w.>])(exit|_exit|quick_exit|abort)\s*\(")


def check_banned_calls(tree):
    for s in tree.c:
        for match in CALL.finditer(s.code):
            name = match.group(1)
            yield s.path, s.line_of(match.start()), "banned", f"{name}: use {BANNED[name]}"
        if not s.is_test and not any(f[0] == "main" for f in s.functions()):
            for match in LEAVE.finditer(s.code):
                what = f"{match.group(1)} outside a file with main: return an error"
                yield s.path, s.line_of(match.start()), "exit", what


def check_loop_memory(tree):
    for s in tree.c:
        if not s.path.startswith(LOOP_FOLDERS):
            continue
        for name, first, _, body in s.functions():
            match = ALLOCATORS.search(body)
            if match and not OUTSIDE_LOOP.search(name):
                what = f"{match.group(1)} in {name}, which may run in the step loop"
                yield s.path, first, "loop-memory", what


MUTABLE = re.compile(
    r"^(?:static|_Thread_local|__thread)\b(?!.*\bconst\b)(?!.*\binline\b)[^()\n]*(?:=|;)", re.M)
LOCAL_STATIC = re.compile(r"^[ \t]+static\b(?![^=;\n]*\bconst(?:expr)?\b)[^()\n]*(?:=|;|\{)", re.M)
EXTERN = re.compile(r"^\s*extern\s+(?!\"C\")[^()\n]*;", re.M)


def check_globals(tree):
    for s in tree.c:
        rules = [(EXTERN, "an extern variable")]
        if not s.is_test:
            rules += [(MUTABLE, "mutable state at file scope"), (LOCAL_STATIC, "a mutable static")]
        for pattern, what in rules:
            for match in pattern.finditer(s.code):
                if not re.match(r"^static (struct|enum|union) \w+;$", match.group()):
                    yield s.path, s.line_of(match.start()), "global", what


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def includes(source):
    for match in INCLUDE.finditer(source.text):
        yield match.group(1) == "<", match.group(2), source.line_of(match.start())


def room_of(path):
    parts = path.split("/")
    return parts[0], parts[1] if len(parts) > 2 else ""


def arrow_points_up(source_path, target):
    program, room = room_of(source_path)
    to_program, to_room = room_of(target)
    if program == "tests" or program not in PROGRAMS:
        return False
    if to_program not in PROGRAMS[program]:
        return True
    order = ROOMS.get(program, [])
    if to_program != program or room not in order or to_room not in order:
        return False
    return order.index(to_room) > order.index(room)


def check_includes(tree):
    for s in tree.c:
        for system, name, line in includes(s):
            if system:
                continue
            if "/" not in name and not name.endswith(".pb-c.h"):
                yield s.path, line, "include", f'"{name}" must be relative to the root'
            elif arrow_points_up(s.path, name):
                yield s.path, line, "arrow", f"{s.path} must not include {name}: arrows point down"
            elif name.endswith(".c") and not s.is_test:
                yield s.path, line, "include", f"only a unit test may include {name}"


def reached_headers(tree, source):
    """All headers that a source includes, through the project's own too: {name: line here}."""
    reached, queue = {}, [(source, None)]
    while queue:
        s, line = queue.pop()
        for _, name, own_line in includes(s):
            if name in reached:
                continue
            reached[name] = line or own_line
            if name in tree.by_path:
                queue.append((tree.by_path[name], line or own_line))
    return reached


def check_purity(tree):
    for s in tree.c:
        if not s.path.startswith(PURE_ROOMS):
            continue
        own = {name for _, name, _ in includes(s)}
        for name, line in sorted(reached_headers(tree, s).items(), key=lambda item: item[1]):
            if IO_HEADERS.match(name) or (name in own and IO_OWN_HEADERS.match(name)):
                yield s.path, line, "pure", f"reaches {name}: this room does no I/O"
        for match in IO_CALLS.finditer(s.code):
            what = f"{match.group(1)}: this room does no I/O"
            yield s.path, s.line_of(match.start()), "pure", what


def guard_names(path):
    """MTR_<ROOM>_<FILE>_H from the end of the path; a word that repeats itself may be said once."""
    every = re.split(r"\W|_", re.sub(r"\.h$", "", path).upper())
    once = [w for i, w in enumerate(every) if i == 0 or w != every[i - 1]]
    return ["MTR_" + "_".join(w[-n:]) + "_H" for w in (every, once) for n in range(1, len(w) + 1)]


def check_guards(tree):
    seen = {}
    for s in tree.c:
        if not s.path.endswith(".h"):
            continue
        match = re.search(r"^#ifndef (\w+)\n#define (\w+)\n", s.text, re.M)
        if not match or match.group(1) != match.group(2):
            yield s.path, 1, "guard", f"no include guard; {guard_names(s.path)[1:2]} would do"
        elif match.group(1) not in guard_names(s.path):
            yield s.path, 1, "guard", f"{match.group(1)} does not name this file"
        elif match.group(1) in seen:
            yield s.path, 1, "guard", f"{match.group(1)} guards {seen[match.group(1)]} too"
        else:
            seen[match.group(1)] = s.path


def check_references(tree):
    included = {name for s in tree.c for _, name, _ in includes(s)}
    for s in tree.c:
        folder, name = os.path.split(s.path)
        if name.endswith(".h"):
            if s.path not in included:
                yield s.path, 1, "unreferenced", "no file includes this header"
        elif name.endswith(".c") and s.path not in included and not is_built(tree, folder, name):
            yield s.path, 1, "unreferenced", "no meson.build names this file"


def is_built(tree, folder, name):
    """Whether a meson.build names it: one above it (a test by what follows test_), or by path."""
    stem = name[:-2]
    names = (name, stem, re.sub(r"^(test|fuzz)_", "", stem))
    spellings = "|".join(re.escape(n) for n in names)
    for s in tree.sources:
        if os.path.basename(s.path) != "meson.build":
            continue
        if re.search(rf"/{re.escape(name)}'", s.text):
            return True
        if folder.startswith(os.path.dirname(s.path)) and re.search(rf"'({spellings})'", s.text):
            return True
    return False


DECLARATION = re.compile(r"^[a-zA-Z_][^;{}=#]*?\b(mtr_\w+)\s*\([^;{}]*\)[^;{}]*;", re.M)
MACRO = re.compile(r"^#define (MTR_\w+|mtr_\w+)\b(?!\s*$)", re.M)
TYPE = re.compile(r"^(?:struct|union)\s+(mtr_\w+)\s*\{", re.M)


def count_words(tree, skip=None):
    """How often each mtr_ or MTR_ identifier stands in the code, {identifier: count}."""
    counts = collections.Counter()
    for s in tree.c:
        if not skip or not s.path.startswith(skip):
            counts.update(re.findall(r"\b(?:mtr|MTR)_\w+", s.code))
    return counts


def declared_functions(tree):
    """(source, line, name) of each declaration in a header of a room."""
    for s in tree.c:
        if s.path.endswith(".h") and not s.is_test:
            for match in DECLARATION.finditer(s.code):
                yield s, s.line_of(match.start(1)), match.group(1)


def unused_functions(tree, counts):
    """Those that stand nowhere but in their declaration and their definition."""
    defined = {name for s in tree.c for name, *_ in s.functions()}
    declarations = list(declared_functions(tree))
    times = collections.Counter(name for _, _, name in declarations)
    for s, line, name in declarations:
        if name in defined and counts[name] <= times[name] + 1:
            yield s, line, name


def check_undefined(tree):
    defined = {name for s in tree.c for name, *_ in s.functions()}
    for s in tree.sources:  # what a script generates
        if s.path.startswith("scripts/") and s.path.endswith(".py"):
            defined.update(re.findall(r"\bmtr_\w+", s.text))
    for s, line, name in declared_functions(tree):
        if name not in defined:
            yield s.path, line, "undefined", f"{name} is declared and nowhere defined"


def check_dead(tree):
    counts = count_words(tree)
    for s, line, name in unused_functions(tree, counts):
        yield s.path, line, "dead", f"{name} is never used"
    for s in tree.c:
        if not s.path.endswith(".h") or s.is_test:
            continue
        for pattern in (MACRO, TYPE):
            for match in pattern.finditer(s.code):
                name = match.group(1)
                if counts[name] == 1 and not name.endswith("_H"):
                    yield s.path, s.line_of(match.start(1)), "dead", f"{name} is never used"


def is_table(body):
    """Whether most of a function's lines are the rows of a table or the cases of a switch."""
    row = r"^\s*(?:case\b.*|default:|\{.*\},?|\[.*\] = .*|return\b.*|break;)$"
    rows = re.findall(row, body, re.M)
    return len(rows) * 2 >= body.count("\n")


def check_function_length(tree):
    total = long = 0
    worst = []
    for s in tree.c:
        if s.is_test:
            continue
        for name, first, last, body in s.functions():
            length = last - first + 1
            total += 1
            if length >= USUAL_FUNCTION_LINES and not is_table(body):
                long += 1
                worst.append((length, s.path, first, name))
            if length > FUNCTION_LINES and not is_table(body):
                yield s.path, first, "function-length", f"{name} has {length} lines"
    if total and long > total * LONG_SHARE:
        for length, path, first, name in sorted(worst, reverse=True)[:10]:
            yield path, first, "function-length", f"{name} has {length} lines, and too many like it"


RULES = (check_text, check_words, check_spdx, check_syntax, check_executable,
         check_file_length, check_banned_calls,
         check_loop_memory, check_globals, check_includes, check_purity, check_guards,
         check_references, check_undefined, check_dead, check_function_length)
LATE = ("dead",)


def violations(root):
    tree = Tree(root)
    return [found for rule in RULES for found in rule(tree)]


def list_test_only(root):
    """Functions that no program and no runner calls."""
    tree = Tree(root)
    for s, line, name in unused_functions(tree, count_words(tree, skip="tests/unit/")):
        print(f"{s.path}:{line}: {name} is used by unit tests only")


def list_untested(root):
    """Source files of the rooms without a unit test of their own."""
    tree = Tree(root)
    for s in tree.c:
        folder, name = os.path.split(s.path)
        is_program = any(f[0] == "main" for f in s.functions())
        if name.endswith(".c") and not s.is_test and not is_program:
            if not any(t.path.endswith(f"/test_{name}") for t in tree.c if t.is_test):
                print(f"{s.path} has no tests/unit/.../test_{name}")


def main(arguments):
    root = next((a for a in arguments if not a.startswith("-")), ".")
    if "--untested" in arguments:
        list_untested(root)
        return 0
    if "--dead" in arguments:
        list_test_only(root)
        return 0
    found = [v for v in violations(root) if "--draft" not in arguments or v[2] not in LATE]
    for path, line, rule, what in found:
        print(f"{path}:{line}: {rule}: {what}")
    print(f"{len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
