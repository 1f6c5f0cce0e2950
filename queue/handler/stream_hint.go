package handler

import "bytes"

// marks are the beginnings of texts by which some programs say how they are encoded: UTF-8, and the two kinds of UTF-16.
var marks = [][]byte{{0xEF, 0xBB, 0xBF}, {0xFF, 0xFE}, {0xFE, 0xFF}}

// missed says what is wrong with a line that seems to be meant as an answer, and is not taken for one; "" is nothing.
func missed(line streamLine) string {
	hint, text := "", bytes.TrimLeft(line.text, " \t")
	if bytes.HasPrefix(text, []byte("[")) {
		hint = "the program printed a list: a reply is an object, {\"id\": …, \"outcome\": …}, on a line of its own"
	}
	for _, mark := range marks {
		if bytes.HasPrefix(text, mark) {
			hint = "the program printed a byte order mark: a reply is UTF-8 without one"
		}
	}
	if hint == "" || !replyLike.Match(bytes.ReplaceAll(text, []byte{0}, nil)) { // UTF-16 has zeros between its letters
		return ""
	}
	return hint
}

// hintOf says what else may be wrong with a line, where jobs stay without an answer; "" is nothing. Of a program that has answered
// before, only an answer that is not a whole line is of interest.
func hintOf(line streamLine, answered bool) string {
	switch text := bytes.TrimLeft(line.text, " \t"); {
	case line.open && (likeReply(text) || !answered):
		return "the last line that the program printed has no end: a reply ends with a newline, and must be flushed"
	case answered, likeReply(text), len(text) == 0:
		return ""
	}
	return "the program has printed lines, and no reply: that is {\"id\": …, \"outcome\": …} on a line of its own"
}
