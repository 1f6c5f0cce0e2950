package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseYAML turns a file into maps, lists and texts. Every value is the text that stands in the file: YAML would read
// the program true as a truth value, the version 1.10 as 1.1 and a timeout of 30 as a number that has lost its unit.
func parseYAML(data []byte) (map[string]any, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return map[string]any{}, nil
	} else if err != nil {
		return nil, yamlError(err)
	}
	if err := decoder.Decode(&more); err == nil {
		return nil, errors.New("the file holds more than one YAML document; only one can be the configuration")
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlError(err)
	}
	asWritten(&doc)
	var content any
	if err := doc.Decode(&content); err != nil {
		return nil, yamlError(err)
	}
	switch content := content.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return content, nil
	}
	return nil, errors.New("the file must be a section of keys, such as name and queues")
}

// asWritten makes every value of a document a text, but for those that are not there at all.
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

// What is to be changed in the messages of the YAML package.
var (
	// these two quote a value, which might be a secret
	unknownAnchor = regexp.MustCompile("unknown anchor '[^']*' referenced")
	quotedValue   = regexp.MustCompile("`[^`]*`")
	// its parser counts lines from 0, its scanner from 1; neither names the first line
	parserMessage  = regexp.MustCompile(`^(?:line (\d+): )?(did not find expected (?:key|node content|'-' indicator|',' or .*|<.*))$`)
	scannerMessage = regexp.MustCompile(`^(?:did not find|could not find|found|mapping|block) `)
)

// yamlError makes one line of an error of the YAML package: line 3: what is wrong there.
func yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimSpace(strings.TrimPrefix(text, "unmarshal errors:"))
	text = unknownAnchor.ReplaceAllString(text, "a value begins with * but is no alias; put it in quotes")
	text = quotedValue.ReplaceAllString(text, "a value")
	if m := parserMessage.FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[1]) // digits, or none for the first line
		text = fmt.Sprintf("line %d: %s", line+1, m[2])
	} else if scannerMessage.MatchString(text) {
		text = "line 1: " + text
	}
	return errors.New("not valid YAML: " + strings.ReplaceAll(text, "\n ", ";"))
}
