"""C++ symbol names made readable: demangling, the qualified head, the template arguments."""

from __future__ import annotations

import re
from functools import lru_cache

# Names are data from a file: what is read of one, how deep it nests and how long its expansion may
# get are bounded.
_READ = 4096
_DEPTH = 100
_LONGEST = 20_000

# Itanium C++ ABI, section 5.1.5: builtin types.
_BUILTIN = {
    "v": "void",
    "w": "wchar_t",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "n": "__int128",
    "o": "unsigned __int128",
    "f": "float",
    "d": "double",
    "e": "long double",
    "g": "__float128",
    "z": "...",
}
_BUILTIN_D = {"n": "std::nullptr_t", "h": "half", "i": "char32_t", "s": "char16_t", "u": "char8_t"}
_STD = {
    "a": "std::allocator",
    "b": "std::basic_string",
    "s": "std::string",
    "i": "std::istream",
    "o": "std::ostream",
    "d": "std::iostream",
}
_LITERAL_SUFFIX = {"int": "", "unsigned int": "u", "long": "l", "unsigned long": "ul"}
_POINTERS = {"P": "*", "R": "&", "O": "&&"}
_QUALIFIERS = {"K": " const", "V": " volatile", "r": " restrict"}
_LENGTH = re.compile(r"\d+")
_SEQUENCE = re.compile(r"S([0-9A-Z]*)_")
_PARAMETER = re.compile(r"T\d*_")
_LITERAL = re.compile(r"n?[0-9a-fp.+-]*")
_FLOAT16 = re.compile(r"F(\d+)([_b])")


class _UnreadableError(Exception):
    pass


class _Mangled:
    """Reads the name of one mangled function; parameters are left unread."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 2
        self.depth = 0
        self.seen: list[str] = []
        self.head = ""
        self.function = ""

    def peek(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def take(self, token: str) -> bool:
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def need(self, token: str) -> None:
        if not self.take(token):
            raise _UnreadableError

    def match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise _UnreadableError
        self.at = found.end()
        return found

    def note(self, text: str) -> str:
        if len(text) > _LONGEST:
            raise _UnreadableError
        self.seen.append(text)
        return text

    def source_name(self) -> str:
        length = int(self.match(_LENGTH)[0][:5])
        name = self.peek(length)
        if len(name) < length or not length:
            raise _UnreadableError
        self.at += length
        return "(anonymous namespace)" if name.startswith("_GLOBAL__N") else name

    def unqualified(self) -> str:
        self.take("L")
        if self.peek().isdigit():
            name = self.source_name()
            while self.take("B"):
                self.source_name()
            return name
        if self.take("Ut"):
            self.match(re.compile(r"\d*_"))
            return "{unnamed}"
        if self.take("Ul"):
            while not self.take("E"):
                self.type()
            self.match(re.compile(r"\d*_"))
            return "{lambda}"
        code = self.peek(2)
        if len(code) == 2 and code.isalpha() and code.islower():
            self.at += 2
            return "operator()" if code == "cl" else f"operator {code}"
        raise _UnreadableError

    def substitution(self) -> str:
        if self.text[self.at + 1 : self.at + 2] in _STD:
            self.at += 2
            return _STD[self.text[self.at - 1]]
        digits = self.match(_SEQUENCE)[1]
        index = int(digits, 36) + 1 if digits else 0
        if index >= len(self.seen):
            raise _UnreadableError
        return self.seen[index]

    def name(self) -> str:
        """A name in function position: its last part is no substitution candidate."""
        if self.peek() == "N":
            name = self.nested()
            if self.seen:
                self.seen.pop()
            return name
        if self.peek() == "Z":
            return self.local()
        name = f"std::{self.unqualified()}" if self.take("St") else self.unqualified()
        if not self.head:
            self.head = name
        if self.peek() == "I":
            name = self.note(name) + self.arguments()
        return name

    def nested(self) -> str:
        self.need("N")
        while self.peek() in ("r", "V", "K", "R", "O"):
            self.at += 1
        outermost = not self.head
        name = ""
        while not self.take("E"):
            if outermost and name:
                self.head = name
            mark = self.peek()
            if self.take("St"):
                name = "std"
            elif mark == "S":
                name = self.substitution()
            elif mark == "I":
                name = self.note(name + self.arguments())
            elif mark == "T":
                self.match(_PARAMETER)
                name = self.note("T")
            elif mark in ("C", "D") and self.peek(2)[1:].isdigit():
                self.at += 2
                own = head(name).rpartition("::")[2]
                name = self.note(f"{name}::{'~' if mark == 'D' else ''}{own}")
            else:
                part = self.unqualified()
                name = self.note(f"{name}::{part}" if name else part)
        return name

    def local(self) -> str:
        self.need("Z")
        outer = self.name()
        while not self.take("E"):
            self.type()
        if self.take("s"):
            return f"{outer}::string"
        inner = self.name()
        if self.take("_"):
            self.match(re.compile(r"\d|_\d+_"))
        return f"{outer}::{inner}"

    def arguments(self) -> str:
        self.need("I")
        parts = []
        while not self.take("E"):
            parts.append(self.argument())
        return f"<{', '.join(part for part in parts if part)}>"

    def argument(self) -> str:
        self.depth += 1
        if self.depth > _DEPTH:
            raise _UnreadableError
        try:
            if self.peek() == "L":
                return self.literal()
            if self.take("X"):
                self.take("ad")
                text = self.literal()
                self.need("E")
                return text
            if self.take("J"):
                parts = []
                while not self.take("E"):
                    parts.append(self.argument())
                return ", ".join(part for part in parts if part)
            if self.take("Tn"):
                self.type()
                return self.argument()
            if self.take("Ty"):
                return self.argument()
            return self.type()
        finally:
            self.depth -= 1

    def literal(self) -> str:
        self.need("L")
        if self.take("_Z"):
            text = self.name()
            while not self.take("E"):
                self.type()
            return text
        kind = self.type()
        value = self.match(_LITERAL)[0].replace("n", "-", 1)
        self.need("E")
        if kind == "bool":
            return "true" if value == "1" else "false"
        suffix = _LITERAL_SUFFIX.get(kind)
        return f"({kind}){value}" if suffix is None else f"{value}{suffix}"

    def type(self) -> str:
        self.depth += 1
        if self.depth > _DEPTH:
            raise _UnreadableError
        try:
            return self.any_type()
        finally:
            self.depth -= 1

    def any_type(self) -> str:
        mark = self.peek()
        if mark == "N":
            return self.nested()
        if mark == "Z":
            return self.note(self.local())
        if mark == "S" and not self.text.startswith("St", self.at):
            name = self.substitution()
            return self.note(name + self.arguments()) if self.peek() == "I" else name
        if mark == "T":
            self.match(_PARAMETER)
            name = self.note("T")
            return self.note(name + self.arguments()) if self.peek() == "I" else name
        if mark.isdigit() or mark == "u" or self.text.startswith("St", self.at):
            prefix = "std::" if self.take("St") else ""
            self.take("u")
            name = self.note(prefix + self.unqualified())
            return self.note(name + self.arguments()) if self.peek() == "I" else name
        self.at += 1
        if mark in _BUILTIN:
            return _BUILTIN[mark]
        if mark in _POINTERS:
            target = self.type()
            if target.endswith(")") and " (" in target and target == self.function:
                returned, _, taken = target.partition(" (")
                return self.note(f"{returned} ({_POINTERS[mark]})({taken}")
            return self.note(target + _POINTERS[mark])
        if mark in _QUALIFIERS:
            return self.note(self.type() + _QUALIFIERS[mark])
        if mark == "A":
            size = self.match(re.compile(r"\d*"))[0]
            self.need("_")
            return self.note(f"{self.type()} [{size}]")
        if mark == "M":
            return self.note(f"{self.type()}::{self.type()}")
        if mark == "F":
            self.take("Y")
            parts = []
            while not self.take("E"):
                parts.append(self.type())
            taken = ", ".join(part for part in parts[1:] if part != "void")
            self.function = self.note(f"{parts[0] if parts else ''} ({taken})")
            return self.function
        if mark == "D":
            return self.d_type()
        raise _UnreadableError

    def d_type(self) -> str:
        if self.peek() == "F":
            kind = self.match(_FLOAT16)
            return "__bf16" if kind[2] == "b" else f"_Float{kind[1]}"
        mark = self.peek()
        self.at += 1
        if mark in _BUILTIN_D:
            return _BUILTIN_D[mark]
        if mark == "p":
            return self.note(f"{self.type()}...")
        if mark == "v":
            size = self.match(re.compile(r"\d+"))[0]
            self.need("_")
            return self.note(f"{self.type()} vector[{size}]")
        raise _UnreadableError


def _identifiers(text: str) -> list[str]:
    """The length-prefixed identifiers of a mangled name, for one that cannot be read in full."""
    found: list[str] = []
    at = 2
    while (match := _LENGTH.search(text, at)) is not None:
        length = int(match[0][:4])
        word = text[match.end() : match.end() + length]
        if len(word) == length > 1 and word.isidentifier():
            found.append(word)
            at = match.end() + length
        else:
            at = match.end()
    return found


@lru_cache(maxsize=16384)
def readable(name: str) -> str:
    """The name as a person writes it: demangled, without `void`, `.kd` and clone suffixes.

    A mangled name that is cut short or outside the subset keeps its function, with the identifiers
    that follow in place of the template arguments; one of which nothing can be read stays as it is.
    """
    text = name[:_READ].strip()
    if text.startswith("_Z"):
        reader = _Mangled(text)
        try:
            text = reader.name()
        except (_UnreadableError, RecursionError):
            text = f"{reader.head}<{', '.join(_identifiers(text))}>" if reader.head else text
    text = re.sub(r" \[clone [^\]]*\]|\.kd$|\.(?:cold|isra|constprop)(?:\.\d+)*$", "", text)
    if text.startswith("std::enable_if<"):
        # A constrained return type: the function follows `>::type`.
        text = text[text.find(">::type ") + len(">::type ") :] if ">::type " in text else text
    return text.removeprefix("void ").replace("(anonymous namespace)::", "").strip()


@lru_cache(maxsize=16384)
def head(text: str) -> str:
    """The qualified function name of a readable name, without template arguments and parameters.

    Template arguments of enclosing classes are dropped as well.
    """
    out: list[str] = []
    depth = 0
    for index, char in enumerate(text):
        if char == "<":
            depth += 1
        elif char == ">" and depth:
            depth -= 1
        elif char == "(" and not depth:
            if not text.startswith("()", index) or not text[:index].endswith("operator"):
                break
            out.append(char)
        elif not depth:
            out.append(char)
    return "".join(out).strip() or text


def arguments(text: str) -> tuple[str, ...]:
    """The top-level arguments of the first template argument list of a readable name."""
    start = text.find("<")
    if start < 0:
        return ()
    parts: list[str] = []
    depth = 0
    last = start + 1
    for index in range(start, len(text)):
        char = text[index]
        if char in "<({":
            depth += 1
        elif char in ">)}":
            depth -= 1
            if not depth:
                parts.append(text[last:index])
                break
        elif char == "," and depth == 1:
            parts.append(text[last:index])
            last = index + 1
    return tuple(part.strip() for part in parts if part.strip())


# `topkGating`, `fp8Quant`, `FusedAddRMSNorm`, `Sm100Fmha`; a capital after a digit opens a word
# only where letters led to that digit, so that `A2ADispatch` is `a2a dispatch`.
_CAPITAL = re.compile(
    r"(?<=[a-z])(?=[A-Z])|(?<=[a-z]\d)(?=[A-Z])|(?<=[a-z]\d\d)(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])"
)
_SPELLED = re.compile(r"RoPE|MoE|SiLU|GeLU|GeGLU|SwiGLU|ReLU|LoRA|RMSNorm|LayerNorm|SplitK|splitK")
_NOT_A_WORD = re.compile(r"[^A-Za-z0-9]+")


def words(text: str) -> str:
    """The words of identifiers in lower case, one space between them: `vllm fused add rmsnorm`.

    Words end at what is neither letter nor digit and at capitals; digits stay on their word.
    """
    spelled = _SPELLED.sub(lambda found: f"_{found[0].lower()}_", text)
    return _NOT_A_WORD.sub(" ", _CAPITAL.sub(" ", spelled)).strip().lower()
