package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/hipq/hipq/internal/texts"
)

// parseYAML parses a file into maps, lists and texts. Each value is the text as written: YAML would read the program
// true as a boolean, the version 1.10 as 1.1 and a timeout of 30 as a number without its unit.
//
// lines has the line of each key by its path; "" is the first key's.
func parseYAML(data []byte) (content map[string]any, lines map[string]int, err error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return map[string]any{}, map[string]int{"": 1}, nil
	} else if err != nil {
		return nil, nil, yamlError(data, err)
	}
	if err := decoder.Decode(&more); err == nil {
		return nil, nil, fmt.Errorf("line %d: the file holds more than one YAML document; only one can be the configuration", more.Content[0].Line)
	} else if !errors.Is(err, io.EOF) {
		return nil, nil, yamlError(data, err)
	}
	asWritten(&doc)
	var whole any
	if err := doc.Decode(&whole); err != nil {
		return nil, nil, yamlError(data, err)
	}
	lines = map[string]int{"": doc.Content[0].Line}
	switch whole := whole.(type) {
	case nil:
		return map[string]any{}, lines, nil
	case map[string]any:
		keyLines("", doc.Content[0], lines)
		return whole, lines, nil
	}
	return nil, nil, fmt.Errorf("line %d: the file must be a section of keys, such as name and queues", lines[""])
}

// asWritten makes each value of a document a text, unless it is empty.
func asWritten(n *yaml.Node) {
	for i, child := range n.Content {
		key := n.Kind == yaml.MappingNode && i%2 == 0
		tag := child.ShortTag()
		if child.Kind == yaml.ScalarNode && tag != "!!merge" && (key || tag != "!!null") {
			child.Tag = "!!str"
		}
		asWritten(child)
	}
}

func keyLines(path string, n *yaml.Node, lines map[string]int) {
	switch n.Kind {
	case yaml.AliasNode:
		keyLines(path, n.Alias, lines)
	case yaml.SequenceNode:
		for i, item := range n.Content {
			at := element(path, i, nameIn(item))
			lines[at], lines[element(path, i, "")] = item.Line, item.Line
			keyLines(at, item, lines)
		}
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 { // first the merged keys, which the section's own outrank
			if n.Content[i].ShortTag() == "!!merge" {
				keyLines(path, n.Content[i+1], lines)
			}
		}
		for i := 0; i < len(n.Content); i += 2 {
			if key := n.Content[i]; key.ShortTag() != "!!merge" {
				at := under(path, key.Value)
				lines[at] = key.Line
				keyLines(at, n.Content[i+1], lines)
			}
		}
	}
}

// nameIn is the name of a list's element.
func nameIn(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == "name" {
			return n.Content[i+1].Value
		}
	}
	return ""
}

// These patterns rewrite messages of the YAML package.
var (
	// these two quote a value, which might be a secret
	unknownAnchor = texts.Pattern("unknown anchor '[^']*' referenced")
	quotedValue   = texts.Pattern("`[^`]*`")
	// its parser counts lines from 0, its scanner from 1; neither names the first line
	parserMessage  = texts.Pattern(`^(?:line (\d+): )?(did not find expected (?:key|node content|'-' indicator|',' or .*|<.*))$`)
	scannerMessage = texts.Pattern(`^(?:did not find|could not find|found|mapping|block) `)
	// an error about an anchor names no line
	ofAnchor = texts.Pattern(`anchor '([^']*)' (referenced|value contains itself)$`)
	hasLine  = texts.Pattern(`^line \d+: `)
)

// unquoted are remedies for values that YAML treats specially.
var unquoted = map[string]string{
	"did not find expected alphabetic or numeric character": `put a value that begins with * or & in quotes: "*/5 * * * *"`,
	"found character that cannot start any token":           `a value that begins with @ or % must be in quotes: "@daily"; indent with spaces, not with tabs`,
}

// yamlError makes one line of a YAML error: line 3: what is wrong there.
func yamlError(data []byte, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimSpace(strings.TrimPrefix(text, "unmarshal errors:"))
	text = unknownAnchor().ReplaceAllString(text, "a value begins with * but is no alias; put it in quotes")
	text = quotedValue().ReplaceAllString(text, "a value")
	if m := parserMessage().FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[1]) // digits, or none for the first line
		text = fmt.Sprintf("line %d: %s", line+1, m[2])
	} else if scannerMessage().MatchString(text) {
		text = "line 1: " + text
	} else if !hasLine().MatchString(text) { // find the line in the file
		at := bytes.IndexFunc(data, func(r rune) bool { return r == utf8.RuneError || r < ' ' && !strings.ContainsRune("\t\n\r", r) })
		if m := ofAnchor().FindStringSubmatch(err.Error()); m != nil {
			at = bytes.Index(data, []byte(map[bool]string{true: "*", false: "&"}[m[2] == "referenced"]+m[1]))
		}
		text = fmt.Sprintf("line %d: %s", 1+bytes.Count(data[:max(0, at)], []byte("\n")), text)
	}
	for said, remedy := range unquoted {
		if strings.HasSuffix(text, said) {
			text += "; " + remedy
		}
	}
	return errors.New("not valid YAML: " + strings.ReplaceAll(text, "\n ", ";"))
}
