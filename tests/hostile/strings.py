"""The strings. What a page lets through has MARK in the name of a tag or an attribute, in code, or in an address."""

MARK = "zq7x"
CALL = f"alert('{MARK}')"

MARKUP = (
    f"<script>{CALL}</script>",
    f'"><img src={MARK} onerror={CALL}>',
    f"'><svg/onload={CALL} {MARK}>",
    f"' onmouseover='{MARK}' {MARK}='",
    f'" autofocus onfocus="{MARK}" {MARK}="',
    f"x onclick={MARK} {MARK}=1",
    f"</script><script>{CALL}</script>",
    f"</textarea><{MARK}>",
    f"</title></style></select></template><{MARK}>",
    f"--><{MARK}><!--",
    f"]]><{MARK}>",
    f'<iframe srcdoc="<script>{CALL}</script>">',
    f"<base href=//{MARK}.example/>",
    f"<meta http-equiv=refresh content=0;url=//{MARK}.example>",
    f"<form action=//{MARK}.example><button>Sign in",
    f"<style>@import '//{MARK}.example'</style>",
    f'<a href="javascript:{CALL}" hx-get="/{MARK}" hx-trigger="load">here</a>',
    f'<div hx-on::load="{CALL}" x-data="{CALL}" @click="{CALL}">',
    f"<math><mtext><{MARK}>",
    f"<{MARK}",
    f"<scr<script>ipt>{CALL}</scr</script>ipt>",
)
# Where the whole value would become an address or code.
ADDRESSES = (
    f"javascript:{CALL}",
    f"JaVa\tScRiPt\n:{CALL}",
    f"\x01javascript:{CALL}",
    f"data:text/html,<script>{CALL}</script>",
    f"vbscript:{MARK}",
    f"//{MARK}.example/",
    f"/\\{MARK}.example/",
    f"https://{MARK}.example/",
    f"js:{CALL}",
)
# What templates, other alphabets and terminals make of text.
TRICKS = (
    "{{ request." + MARK + " }}{% include '" + MARK + "' %}",
    '{{ constructor.constructor("' + CALL + '")() }}${' + CALL + "}",
    f"&lt;{MARK}&gt;&#60;{MARK}&#62;",
    f"%3C{MARK}%3E\\u003c{MARK}\\u003e",
    f"\uff1c{MARK}\uff1e\u2039{MARK}\u203a\u02c2{MARK}\u02c3",
    f"+ADw-{MARK}+AD4-",
    f"\u2028\u2029</{MARK}>\u202e{MARK}\u2066\u200b\ufeff",
    f"\x1b[31m{MARK}\x1b[0m\x07\x7f\x9b",
    f'=HYPERLINK("//{MARK}.example")',
    f"a\r\nSet-Cookie: {MARK}=1\r\n\r\n<{MARK}>",
    f"{MARK}\\');{CALL}//",
)
ALL = (*MARKUP, *ADDRESSES, *TRICKS)
NAMES = tuple(text for text in ALL if "/" not in text and "\n" not in text)  # what may stand between two slashes
