package admin

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spillway-kv/spillway/cluster/node"
	"github.com/spillway-kv/spillway/engine"
	"github.com/spillway-kv/spillway/fio/units"
)

// Namespaces is the JSON of /v1/namespaces: all that any store has.
type Namespaces struct {
	Namespaces []NamespaceState `json:"namespaces"` // by name
}

// NamespaceState is one namespace over all stores.
type NamespaceState struct {
	Name       string          `json:"name"`             // as its descriptor says
	ID         string          `json:"id"`               // 64 hex digits
	BlockBytes int             `json:"block_bytes"`      // size of every block
	Blocks     int             `json:"blocks"`           // present
	Slots      int             `json:"slots"`            // blocks that fit
	QuotaBytes int64           `json:"quota_bytes"`      // over all stores; 0: none
	Opened     *node.SpaceStat `json:"opened,omitempty"` // its counters, if a client has opened it since the start
}

func (v *View) namespaces() Namespaces {
	st := v.State()
	byID := map[string]*NamespaceState{}
	for i := range st.Stores {
		for _, ns := range st.Stores[i].Namespaces {
			if byID[ns.ID] == nil {
				byID[ns.ID] = &NamespaceState{Name: ns.Name, ID: ns.ID, BlockBytes: ns.BlockBytes}
			}
			n := byID[ns.ID]
			n.Blocks += ns.Blocks
			n.Slots += ns.Slots
			n.QuotaBytes += ns.QuotaBytes
		}
	}
	for i := range st.Spaces {
		if n := byID[st.Spaces[i].ID]; n != nil {
			n.Opened = &st.Spaces[i]
		}
	}
	all := []NamespaceState{}
	for _, n := range byID {
		all = append(all, *n)
	}
	slices.SortFunc(all, func(a, b NamespaceState) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })
	return Namespaces{all}
}

// Clients is the JSON of /v1/clients.
type Clients struct {
	Clients []node.ClientStat `json:"clients"` // in the order in which they came
}

func (v *View) clients() Clients {
	return Clients{append([]node.ClientStat{}, v.State().Clients...)}
}

// changing wraps what changes something: it wants the token, unless only operators come
// here, and a JSON body, and leaves a line in the log.
func (v *View) changing(o ServerOptions, do func(n *node.Node, body []byte) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := *v.token.Load()
		shown, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case o.Trusted:
		case token == "":
			fail(w, http.StatusForbidden, "nothing can be changed here: set admin.token in the daemon's configuration")
			return
		case subtle.ConstantTimeCompare([]byte(token), []byte(shown)) != 1:
			w.Header().Set("WWW-Authenticate", "Bearer")
			fail(w, http.StatusUnauthorized, "the token is not that of admin.token")
			return
		}
		n := v.node.Load()
		if n == nil {
			fail(w, http.StatusServiceUnavailable, errNotReady.Error())
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			fail(w, http.StatusRequestEntityTooLarge, err.Error())
			return
		}
		done, err := do(n, body)
		if err != nil {
			fail(w, codeOf(err), err.Error())
			return
		}
		o.Logger.Info("changed over HTTP", "what", done, "from", r.RemoteAddr)
		reply(w, Changed{done})
	}
}

// Changed is the JSON of a POST that did something.
type Changed struct {
	Done string `json:"done"` // what, in words
}

var errRequest = errors.New("bad request")

func codeOf(err error) int {
	switch {
	case errors.Is(err, errRequest), errors.Is(err, engine.ErrConfig):
		return http.StatusBadRequest
	case errors.Is(err, engine.ErrNotFound), errors.Is(err, ErrUnknown), errors.Is(err, errNoPool):
		return http.StatusNotFound
	case errors.Is(err, ErrState):
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

// strict decodes exactly one JSON object with known fields.
func strict(body []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", errRequest, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: something follows the JSON object", errRequest)
	}
	return nil
}

func (v *View) drop(n *node.Node, body []byte) (string, error) {
	var ask struct {
		Namespace string `json:"namespace"`
	}
	if err := strict(body, &ask); err != nil {
		return "", err
	}
	return fmt.Sprintf("dropped namespace %q", ask.Namespace), n.DropNamespace(ask.Namespace)
}

func (v *View) quota(n *node.Node, body []byte) (string, error) {
	var ask struct {
		Namespace string `json:"namespace"`
		Quota     string `json:"quota"`
	}
	if err := strict(body, &ask); err != nil {
		return "", err
	}
	bytes := int64(node.NoQuota)
	if ask.Quota != "none" {
		var err error
		if bytes, err = units.ParseBytes(ask.Quota); err != nil || bytes == 0 {
			return "", fmt.Errorf(`%w: quota %q: want a size such as 10GiB, or "none"`, errRequest, ask.Quota)
		}
	}
	return fmt.Sprintf("quota of namespace %q is %s", ask.Namespace, ask.Quota), n.SetQuota(ask.Namespace, bytes)
}

func (v *View) disconnect(n *node.Node, body []byte) (string, error) {
	var ask struct {
		Client uint64 `json:"client"`
	}
	if err := strict(body, &ask); err != nil {
		return "", err
	}
	if !n.Disconnect(ask.Client) {
		return "", fmt.Errorf("%w: client %d", engine.ErrNotFound, ask.Client)
	}
	return fmt.Sprintf("disconnected client %d", ask.Client), nil
}
