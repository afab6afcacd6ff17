#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests tidy.py: each kind of violation is caught, in a tree that is otherwise clean.

usage: test_tidy.py
"""
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # noqa: E402

SPDX = "/* SPDX-License-Identifier: MIT OR Apache-2.0 */\n"

CLEAN = {
    "meson.build": "# SPDX-License-Identifier: MIT OR Apache-2.0\nsubdir('common')\n",
    "common/base/meson.build": "# SPDX-License-Identifier: MIT OR Apache-2.0\nfiles('thing.c')\n",
    "common/base/thing.h": SPDX + "#ifndef MTR_BASE_THING_H\n#define MTR_BASE_THING_H\n\n"
    "#define MTR_THING_MAX 5\n\nint mtr_thing(int x);\n\n#endif\n",
    "common/base/thing.c": SPDX + '#include "common/base/thing.h"\n\n#include <stdlib.h>\n\n'
    'static const char *const words[] = {"strcpy(a, b)", "x"};\n\n'
    "/* strcpy(a, b) may stand in a comment. */\n"
    "int mtr_thing(int x)\n{\n    return x > MTR_THING_MAX ? x : (int)words[0][0];\n}\n",
    "broker/sched/meson.build": "# SPDX-License-Identifier: MIT OR Apache-2.0\nfiles('plan.c')\n",
    "broker/sched/plan.c": SPDX + '#include "common/base/thing.h"\n\n'
    "static int twice(int x)\n{\n    return mtr_thing(x) * 2;\n}\n",
    "broker/meson.build": "# SPDX-License-Identifier: MIT OR Apache-2.0\nfiles('main.c')\n",
    "broker/main.c": SPDX + '#include <stdlib.h>\n\nint main(void)\n{\n    exit(0);\n}\n',
    "worker/exec/meson.build": "# SPDX-License-Identifier: MIT OR Apache-2.0\nfiles('step.c')\n",
    "worker/exec/step.c": SPDX + "#include <stdlib.h>\n\nvoid *step_create(void)\n{\n"
    "    return malloc(1);\n}\n",
    "scripts/do": "#!/usr/bin/env bash\n# SPDX-License-Identifier: MIT OR Apache-2.0\ntrue\n",
}


def body(lines):
    return "\n{\n" + "    x++;\n" * lines + "}\n"


def in_c(line):
    """The clean plan.c with one more line at its end."""
    return {"broker/sched/plan.c": CLEAN["broker/sched/plan.c"] + line}


# (rule, what changes in the clean tree)
VIOLATIONS = [
    ("columns", in_c("/* " + "x" * 100 + " */\n")),
    ("columns", {"scripts/do": CLEAN["scripts/do"] + "# " + "x" * 100 + "\n"}),
    ("tab", in_c("\tint x;\n")),
    ("space", in_c("int x(void); \n")),
    ("newline", in_c("int x(void);")),
    ("spdx", {"common/base/thing.c": CLEAN["common/base/thing.c"][len(SPDX):]}),
    ("spdx", {"scripts/do": "#!/usr/bin/env bash\ntrue\n"}),
    ("spdx", {"meson.build": "subdir('common')\n"}),
    ("syntax", {"scripts/do": CLEAN["scripts/do"] + "if true\n"}),
    ("syntax", {"tests/x.py": "# SPDX-License-Identifier: MIT OR Apache-2.0\ndef f(:\n"}),
    ("executable", {"scripts/idle": CLEAN["scripts/do"]}),
    ("foreign", in_c("/* see /wor" "k/main/x */\n")),
    ("foreign", {"README.md": "from py" "pi.org\n"}),
    ("foreign", {"docs/x.md": "a sub" "agent wrote it\n"}),
    ("unfinished", in_c("/* TO" "DO: more */\n")),
    ("file-length", in_c("int y(void);\n" * 700)),
    ("banned", in_c("void f(char *a)\n{\n    strcpy(a, a);\n}\n")),
    ("banned", in_c("int f(char *a)\n{\n    return atoi(a);\n}\n")),
    ("banned", in_c("int f(char *a)\n{\n    return sprintf(a, a);\n}\n")),
    ("exit", in_c("void f(void)\n{\n    exit(1);\n}\n")),
    ("loop-memory", {"worker/exec/step.c": CLEAN["worker/exec/step.c"]
                     + "void *run_step(void)\n{\n    return malloc(1);\n}\n"}),
    ("global", in_c("static int counter;\n")),
    ("global", in_c("static struct x table[] = {{0}};\n")),
    ("global", in_c("int f(void)\n{\n    static int n;\n    return n++;\n}\n")),
    ("global", {"common/base/thing.h": CLEAN["common/base/thing.h"].replace(
        "#endif\n", "extern int mtr_count;\n\n#endif\n")}),
    ("arrow", {"common/base/thing.c": CLEAN["common/base/thing.c"].replace(
        "<stdlib.h>", '"common/wire/codec.h"')}),
    ("arrow", in_c('#include "worker/exec/exec.h"\n')),
    ("arrow", in_c('#include "broker/http/server.h"\n')),
    ("include", in_c('#include "plan.h"\n')),
    ("include", in_c('#include "common/base/thing.c"\n')),
    ("pure", in_c("#include <pthread.h>\n")),
    ("pure", in_c("#include <sys/socket.h>\n")),
    ("pure", in_c('#include "common/base/file.h"\n')),
    ("pure", in_c('void f(void)\n{\n    printf("x");\n}\n')),
    ("pure", {"common/base/thing.h": CLEAN["common/base/thing.h"].replace(
        "#define MTR_THING_MAX", "#include <time.h>\n#define MTR_THING_MAX")}),
    ("guard", {"common/base/thing.h": CLEAN["common/base/thing.h"].replace("_THING_H", "_SOME_H")}),
    ("guard", {"common/base/thing.h": SPDX + "#define MTR_THING_MAX 5\nint mtr_thing(int x);\n"}),
    ("unreferenced", {"common/base/stray.c": SPDX + "int stray(void);\n"}),
    ("unreferenced", {"common/base/stray.h": CLEAN["common/base/thing.h"].replace("THING", "STRAY")
                      .replace("mtr_thing", "mtr_stray")}),
    ("undefined", {"common/base/thing.h": CLEAN["common/base/thing.h"].replace(
        "#endif\n", "bool mtr_nothing(int a,\n                 int b);\n\n#endif\n")}),
    ("dead", {"common/base/thing.h": CLEAN["common/base/thing.h"].replace(
        "#endif\n", "void mtr_idle(void);\n\n#endif\n"),
        "common/base/thing.c": CLEAN["common/base/thing.c"] + "\nvoid mtr_idle(void)\n{\n}\n"}),
    ("dead", {"common/base/thing.h": CLEAN["common/base/thing.h"].replace(
        "#endif\n", "#define MTR_UNUSED_LIMIT 5\n\n#endif\n")}),
    ("dead", {"common/base/thing.h": CLEAN["common/base/thing.h"].replace(
        "#endif\n", "struct mtr_lonely {\n    int x;\n};\n\n#endif\n")}),
    ("function-length", in_c("void f(int x)" + body(121))),
    ("function-length", in_c("".join(f"void f{i}(int x){body(60)}\n" for i in range(3)))),
]

# Not violations, though they come close.
ALLOWED = [
    in_c('static const int table[] = {1};\nstatic int g(void);\nstruct x;\n'),
    in_c("int f(int x)\n{\n    switch (x) {\n" + "    case 1:\n        return 5;\n" * 70
         + "    }\n}\n"),
    {"tests/unit/base/meson.build": CLEAN["broker/meson.build"].replace("main.c", "thing"),
     "tests/unit/base/test_thing.c": SPDX + '#include "common/base/thing.c"\nstatic int state;\n'},
    {"tests/golden/x.txt": "a \t/wor" "k/\n"},
    {"build/x.c": "\tstrcpy(a, b);"},
]


def run(change):
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**CLEAN, **change}.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)
            if path == "scripts/do":
                os.chmod(full, 0o755)
        return tidy.violations(root)


def main():
    failures = []
    clean = run({})
    if clean:
        failures.append(f"the clean tree has violations: {clean}")
    for rule, change in VIOLATIONS:
        found = {v[2] for v in run(change)}
        if rule not in found:
            failures.append(f"{rule} was not caught in {list(change)} (found: {sorted(found)})")
    for change in ALLOWED:
        found = run(change)
        if found:
            failures.append(f"{list(change)} is allowed, but gave {found}")
    for failure in failures:
        print(failure)
    print(f"{len(VIOLATIONS) + len(ALLOWED) + 1} cases, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
