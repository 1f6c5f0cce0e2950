package handler

import "bytes"

// marks are the beginnings of texts by which some programs say how they are encoded: UTF-8, and the two kinds of UTF-16.
var marks = [][]byte{{0xEF, 0xBB, 0xBF}, {0xFF, 0xFE}, {0xFE, 0xFF}}

// hintOf says what may be wrong with a line, where jobs stay without an answer; "" is nothing. Of a program that has answered
// before, only an answer that is not a whole line is of interest.
func hintOf(line streamLine, answered bool) string {
	switch text := bytes.TrimLeft(line.text, " \t"); {
	case line.open && (likeReply(text) || !answered):
		return "the last line that the program printed has no end: a reply ends with a newline, and must be flushed"
	case answered, likeReply(text), len(text) == 0:
		return ""
	case text[0] == '[' && replyLike.Match(text):
		return "the program printed a list: a reply is an object, {\"id\": …, \"outcome\": …}, on a line of its own"
	}
	for _, mark := range marks {
		if bytes.HasPrefix(line.text, mark) {
			return "the program printed a byte order mark: a reply is UTF-8 without one"
		}
	}
	return "the program has printed lines, and no reply: that is {\"id\": …, \"outcome\": …} on a line of its own"
}
