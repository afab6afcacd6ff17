#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write broker/text/unicode_category.c, unicode_script.c and unicode_legacy.c.

    make_unicode_tables.py OUT_DIR

The tables hold what the tokenizers library (Python package `tokenizers`, 0.23) thinks of every code
point, because its ids are the measure: categories and scripts of its regular expressions (Unicode
16), and the characters that its older normalization tables (Unicode 9) do not know although
libutf8proc does. Run it when that library moves on; it takes minutes.
"""

import ctypes
import ctypes.util
import pathlib
import subprocess
import sys

from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = """
Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cs
""".split()
SCRIPTS = """
Unknown Common Inherited Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum
Bassa_Vah Batak Bengali Bhaiksuki Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal
Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Coptic Cuneiform Cypriot Cypro_Minoan
Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan Elymaic
Ethiopic Garay Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi
Gurung_Khema Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic
Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li
Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Kirat_Rai Lao Latin Lepcha Limbu Linear_A
Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi
Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian
Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu
Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Ol_Onal Old_Hungarian Old_Italic Old_North_Arabian
Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya
Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan
Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese
Sunuwar Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut
Telugu Thaana Thai Tibetan Tifinagh Tirhuta Todhri Toto Tulu_Tigalari Ugaritic Vai Vithkuqi Wancho
Warang_Citi Yezidi Yi Zanabazar_Square
""".split()

SCALARS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
ALL = "".join(map(chr, SCALARS))

HEAD = """/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * {what}
 *
 * Written by scripts/make_unicode_tables.py; do not edit. Source: the Unicode Character Database.
 */
#include "broker/text/unicode.h"

"""


def members(pattern):
    """The code points that the pattern matches."""
    split = pre_tokenizers.Split(Regex(pattern + "+"), "removed", invert=True)
    return [ord(c) for word, _ in split.pre_tokenize_str(ALL) for c in word]


def property_of(names):
    values = [0] * 0x110000
    for number, name in enumerate(names):
        if number and name != "Cs":
            for c in members(r"\p{%s}" % name):
                values[c] = number
    return values


def runs(values):
    """(first code point, value) wherever the value changes."""
    out = []
    for c, v in enumerate(values):
        if not out or out[-1][1] != v:
            out.append((c, v))
    return out


def rows(items, per_line):
    lines = [items[i : i + per_line] for i in range(0, len(items), per_line)]
    return "".join("    " + " ".join(line) + "\n" for line in lines)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    subprocess.run(["clang-format-14", "-i", "--style=file", str(path)], check=True)


def array(kind, name, content):
    """A static table and the function that hands it out."""
    space = "" if kind.endswith("*const") else " "
    text = f"static const {kind}{space} table_{name}[] = {{\n{content}}};\n\n"
    text += f"const {kind}{space} *mtr_unicode_{name}(size_t *count)\n{{\n"
    text += f"    *count = sizeof(table_{name}) / sizeof(table_{name}[0]);\n"
    return text + f"    return table_{name};\n}}\n"


def write_table(path, what, name, values, bits):
    content = rows([f"0x{c << bits | v:x}," for c, v in runs(values)], 9)
    text = HEAD.format(what=what)
    text += array("uint32_t", name, content)
    write(path, text)


class Utf8proc:
    def __init__(self):
        self.lib = ctypes.CDLL(ctypes.util.find_library("utf8proc"))
        text, result = ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)
        self.lib.utf8proc_map.argtypes = [text, ctypes.c_ssize_t, result, ctypes.c_int]

    def map(self, s, options):
        out = ctypes.c_char_p()
        data = s.encode()
        size = self.lib.utf8proc_map(data, len(data), ctypes.byref(out), options)
        return ctypes.string_at(out, size).decode()

    def lower(self, c):
        return self.lib.utf8proc_tolower(c)

    def known(self, c):
        return self.lib.utf8proc_category(c) != 0


def unknown_to_normalizers(proc, categories):
    """Characters that utf8proc, or a later one, normalizes and the library does not."""
    forms = [(normalizers.NFC(), 2 | 8), (normalizers.NFKD(), 2 | 4 | 16)]
    forms += [(normalizers.NFD(), 2 | 16)]
    flags = [0] * 0x110000
    for c in SCALARS:
        probes = [chr(c)]
        if CATEGORIES[categories[c]][0] == "M":  # before and behind other marks
            probes += [m + chr(c) for m in "\u0334\u0345\u0301\u0323"]
        newer = not proc.known(c) and categories[c] != 0
        if newer or any(n.normalize_str(p) != proc.map(p, o) for n, o in forms for p in probes):
            flags[c] = 1
    return flags


def other_lower_case(proc):
    """(first, last, difference) of lower case that utf8proc lacks; single characters only."""
    lower, out = normalizers.Lowercase(), []
    for c in SCALARS:
        want = lower.normalize_str(chr(c))
        if len(want) != 1 or ord(want) == proc.lower(c):
            continue
        d = ord(want) - c
        if out and out[-1][1] == c - 1 and out[-1][2] == d:
            out[-1] = (out[-1][0], c, d)
        else:
            out.append((c, c, d))
    return out


def without_script(scripts):
    """Characters whose script the library's pre-tokenizer for scripts does not know."""
    split = pre_tokenizers.UnicodeScripts()
    flags = [0] * 0x110000
    for c in SCALARS:
        if scripts[c] and all(len(split.pre_tokenize_str(a + chr(c))) == 1 for a in "a\u0431"):
            flags[c] = 1
    return flags


def main():
    out = pathlib.Path(sys.argv[1])
    categories = property_of(CATEGORIES)
    write_table(out / "unicode_category.c",
                "Runs of one general category: code point << 5 | category.",
                "category_runs", categories, 5)
    path = out / "unicode_script.c"
    scripts = property_of(SCRIPTS)
    write_table(path, "Runs of one script: code point << 8 | script.", "script_runs", scripts, 8)
    names = array("char *const", "script_names", rows([f'"{s}",' for s in SCRIPTS], 5))
    write(path, path.read_text() + "\n" + names)

    proc = Utf8proc()
    text = HEAD.format(what="""Where the measure is older or newer than libutf8proc.
 *
 * Characters that are never normalized, and those without a script for the pre-tokenizer of that
 * name (runs: code point << 1 | unknown); lower case that libutf8proc 2.8 does not have.""")
    flags = runs(unknown_to_normalizers(proc, categories))
    unknown = rows([f"0x{c << 1 | v:x}," for c, v in flags], 9)
    text += array("uint32_t", "unnormalized_runs", unknown) + "\n"
    unknown = rows([f"0x{c << 1 | v:x}," for c, v in runs(without_script(scripts))], 9)
    text += array("uint32_t", "unscripted_runs", unknown) + "\n"
    lower = [f"{{0x{a:x}, 0x{b:x}, {d}}}," for a, b, d in other_lower_case(proc)]
    text += array("struct mtr_unicode_lower_range", "lower_more", rows(lower, 4))
    write(out / "unicode_legacy.c", text)


if __name__ == "__main__":
    main()
