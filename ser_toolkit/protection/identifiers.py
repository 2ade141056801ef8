"""What has a form of its own: e-mail, links to a person's page, handles, numbers of documents and accounts, phones.

The forms are data (`data/identifiers.toml`). A number that proves itself (a checksum, a date of birth) needs no
word beside it, any other does. Numbers of helplines are nobody's. May import: phonenumbers, inside its function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .helplines import public_numbers
from .spans import Kind, Span
from .tables import pattern, words

_NEAR_A_HANDLE = re.compile("|".join(map(re.escape, (
    "insta", " ig ", " ig:", "twitter", "snap", "discord", "tiktok", "tik tok", "telegram", " kik",
    "skype", "facebook", " fb", "messenger", "whatsapp", "whats app", "wechat", "weixin", " line ",
    "reddit", "u/", "tumblr", "youtube", "linkedin", " psn", "xbox", "steam", "gamer", "roblox", "signal",
    "viber", "kakao", "venmo", "cash app", "cashapp", "username", "user name", "screen name", "handle",
    "login", "user id", "微信", "威信", "薇信", "微 信", "qq", "企鹅", "扣扣", "vx", "wx", "v信", "加v", "+v", "+ v",
    "抖音", "快手", "v:", "v：", "twitch", "minecraft", "github", "spotify", "bluesky", "mastodon", "tinder", "hinge",
    "bumble", "fortnite", "epic ", "onlyfans", "soundcloud", "pinterest", "threads", "battle", "goodreads", "strava",
    "duolingo", "小红书", "微博", "陌陌", "钉钉", "支付宝", "b站", "知乎", "豆瓣", "q群",
))))  # fmt: skip
_NO_HANDLE = words("no_handles")
_REGIONS = {"en": ("US", "GB"), "zh": ("CN",)}
_REGIONS_NEAR = {"en": ("AU", "IN", "IE", "NZ", "ZA", "SG", "DE", "FR", "NG"), "zh": ("HK", "TW", "US", "SG")}
_DIGIT = re.compile(r"\d", re.ASCII)
_HALF_WIDTH = {0xFF10 + i: str(i) for i in range(10)} | {0xFF0B: "+", 0xFF0D: "-", 0xFF08: "(", 0xFF09: ")"}
_AT_ZH = re.compile(r"艾特|圈a|[#＃][\w-]+(?:点|\.)(?:com|cn|net|org)")
_SPOKEN = re.compile(r"\b(?:zero|oh|one|two|three|four|five|six|seven|eight|nine)\b")
_SPOKEN_ZH = re.compile(r"[幺一1][三四五六七八九3-9].?[零〇一二三四五六七八九幺两]")
_SPOKEN_TOKEN = re.compile(r"\d|[a-z]+", re.ASCII)
_LONG_NUMBER, _NUMBER = 10, 7


def find_identifiers(text: str, lang: str) -> Iterator[Span]:
    """Every find of this room; finds may overlap."""
    text = text.translate(_HALF_WIDTH)
    lower = text.lower()
    has_at = "@" in lower or "＠" in lower
    if has_at or " dot " in lower or "(at)" in lower or "[at]" in lower or _AT_ZH.search(text):
        yield from _all("email", "email", text)
    if "/" in text or "www." in text:
        for m in pattern("identifiers", "url").finditer(text):
            if pattern("identifiers", "url_of_a_person").search(m[0]):
                yield Span(m.start(), m.start() + len(m[0].rstrip(".,;:!?")), "url", "url_of_a_person")
    if has_at or "#" in lower or _NEAR_A_HANDLE.search(lower):
        yield from _handles(text)
    digits = len(_DIGIT.findall(text)) if _DIGIT.search(text) else 0
    if digits >= 3:
        yield from _numbers(text)
    if digits >= 6:
        yield from _phones(text, lang)
    if _SPOKEN.search(lower):
        yield from _spoken(text)
    if _SPOKEN_ZH.search(text):
        yield from _all("phone_zh_digits", "phone", text)


def _all(section: str, kind: Kind, text: str) -> Iterator[Span]:
    """Every match of a section: its group `value...`, or the whole."""
    for m in pattern("identifiers", section).finditer(text):
        start, end = _value(m)
        yield Span(start, end, kind, section)


def _value(match: re.Match[str]) -> tuple[int, int]:
    group = next((g for g, found in match.groupdict().items() if found and g.startswith("value")), None)
    return match.span(group) if group else match.span()


def _handles(text: str) -> Iterator[Span]:
    for m in pattern("identifiers", "handle").finditer(text):
        start, end = _value(m)
        value = text[start:end].rstrip(".")
        bare = value.lstrip("@")
        marked = re.search(r"[\d_.#@]", value) is not None
        if bare.lower() not in _NO_HANDLE and (marked or (m.lastgroup != "value_near" and len(bare) > 3)):
            yield Span(start, start + len(value), "handle", "handle")
    yield from _all("handle_zh", "handle", text)


def _numbers(text: str) -> Iterator[Span]:
    yield from _all("id", "id", text)
    for section, proves in (("card", has_luhn), ("iban", has_iban_check)):
        yield from (s for s in _all(section, "id", text) if proves(text[s.start : s.end]))
    for section in ("named_id", "named_id_zh"):
        yield from (s for s in _all(section, "id", text) if not is_date(text[s.start : s.end]))


def _spoken(text: str) -> Iterator[Span]:
    """Phone numbers said digit by digit, in words or in part in words."""
    near = pattern("identifiers", "near_a_phone").search(text)
    for m in pattern("identifiers", "phone_spoken").finditer(text):
        tokens = _SPOKEN_TOKEN.findall(m[0].lower())
        worth = sum({"double": 1, "triple": 2}.get(t, 1) for t in tokens)
        if worth >= (_NUMBER if near else _LONG_NUMBER) and worth <= 15 and not all(t.isdigit() for t in tokens):
            yield Span(m.start(), m.end(), "phone", "phone_spoken")


def _phones(text: str, lang: str) -> Iterator[Span]:
    from phonenumbers import PhoneNumberMatcher

    finds = [*_all("phone", "phone", text), *_all("phone_named", "phone", text)]
    near = _REGIONS_NEAR[lang] if pattern("identifiers", "near_a_phone").search(text) else ()
    for region in (*_REGIONS[lang], *near):
        finds += [Span(m.start, m.end, "phone", f"phone_{region}") for m in PhoneNumberMatcher(text, region)]
    for span in finds:
        number = text[span.start : span.end]
        if re.sub(r"\D", "", number) not in public_numbers() and not is_date(number):
            yield span


def is_date(value: str) -> bool:
    """Whether digits read as a date, a year or a span of years."""
    return pattern("identifiers", "date").fullmatch(value.strip()) is not None


def has_luhn(number: str) -> bool:
    """Whether 13 to 19 digits carry the check digit of a payment card."""
    digits = [int(d) for d in number if d.isdigit()]
    doubled = [d if i % 2 == 0 else d * 2 - 9 * (d > 4) for i, d in enumerate(reversed(digits))]
    return 13 <= len(digits) <= 19 and sum(doubled) % 10 == 0


def has_iban_check(number: str) -> bool:
    """Whether an account number passes ISO 7064 mod 97."""
    compact = number.replace(" ", "")
    if not 15 <= len(compact) <= 34:
        return False
    return int("".join(str(int(c, 36)) for c in compact[4:] + compact[:4])) % 97 == 1
