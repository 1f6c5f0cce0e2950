package handler

import "unicode/utf8"

// keepOutput is how much of what a handler prints is kept, in bytes: the end of it.
const keepOutput = 16 << 10

// output keeps the end of what a program prints, in memory that doesn't grow.
type output struct {
	buf [2 * keepOutput]byte
	n   int   // so much of buf is filled
	cut int64 // so much was dropped
}

func (o *output) reset() { o.n, o.cut = 0, 0 }

// room is where the next bytes go; it is never empty. took says how many have come.
func (o *output) room() []byte {
	if o.n == len(o.buf) {
		o.n = copy(o.buf[:], o.buf[keepOutput:])
		o.cut += keepOutput
	}
	return o.buf[o.n:]
}

func (o *output) took(n int) { o.n += n }

// end is what is kept, as a clean text, and how many bytes before it were cut.
func (o *output) end() (text string, cut int64) {
	kept := o.buf[:o.n]
	kept = kept[max(0, len(kept)-keepOutput):]
	if total := o.cut + int64(o.n); total > int64(len(kept)) {
		// don't begin within a rune
		for range utf8.UTFMax - 1 {
			if utf8.RuneStart(kept[0]) {
				break
			}
			kept = kept[1:]
		}
		cut = total - int64(len(kept))
	}
	return clean(string(kept)), cut
}
