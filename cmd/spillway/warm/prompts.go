package warm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
)

// Prompt is one line of a file of prompts: what an engine is asked. Prompt or Messages is
// needed, as OpenAI's completions and chat completions have them; other fields of
// a line are sent as they are.
type Prompt struct {
	body map[string]json.RawMessage
	chat bool
}

// lineBytesMax bounds a line: a prompt of a million tokens fits.
const lineBytesMax = 32 << 20

// Read yields the prompts of JSON lines; empty lines are skipped. The first error, which names its
// line, is the last.
func Read(r io.Reader) iter.Seq2[Prompt, error] {
	return func(yield func(Prompt, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, lineBytesMax)
		for number := 1; lines.Scan(); number++ {
			if len(lines.Bytes()) == 0 {
				continue
			}
			p, err := parse(lines.Bytes())
			if err != nil {
				yield(Prompt{}, fmt.Errorf("line %d: %w", number, err))
				return
			}
			if !yield(p, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Prompt{}, err)
		}
	}
}

func parse(line []byte) (p Prompt, err error) {
	if err := json.Unmarshal(line, &p.body); err != nil {
		return p, err
	}
	_, text := p.body["prompt"]
	_, p.chat = p.body["messages"]
	if text == p.chat {
		return p, fmt.Errorf("want a JSON object with prompt or with messages")
	}
	return p, nil
}

// request is the path below the endpoint, and the body of a request. What the line does not
// say is as o has it; answers are as short as can be, as only the prompt matters.
func (p *Prompt) request(o *Options) (path string, body []byte, err error) {
	all := map[string]any{"model": o.Model, "max_tokens": o.MaxTokens, "temperature": 0}
	for name, value := range p.body {
		all[name] = value
	}
	all["stream"] = false
	body, err = json.Marshal(all)
	if p.chat {
		return "chat/completions", body, err
	}
	return "completions", body, err
}
