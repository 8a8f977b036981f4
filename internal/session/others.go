package session

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// The client that creates a path first gives it its ACL. If that is one without credentials, or
// with others, those may create and delete below the path, whatever Options.ACL says.

const (
	// parentInterval is between two looks at the same parent, which others may make anew.
	parentInterval = 30 * time.Second
	// maxWatchedACLs bounds what is remembered.
	maxWatchedACLs = 1000
)

// others is what a Client knows of paths whose ACLs let others in.
type others struct {
	mu     sync.Mutex
	warned map[string]bool
	looked map[string]time.Time // parents
}

// noteACL logs a warning if that ACL, of the znode at path, lets others than Options.ACL
// create or delete below the znode: once for each of the first paths. Without credentials, the
// Client expects no better.
func (c *Client) noteACL(path string, acl []zk.ACL) {
	if c.isAnonymous() {
		return
	}
	i := slices.IndexFunc(acl, c.letsOthersIn)
	if i < 0 {
		return
	}
	o := &c.others
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.warned[path] || len(o.warned) == maxWatchedACLs {
		return
	}
	o.warned[path] = true
	id := acl[i].ID
	if user, _, ok := strings.Cut(id, ":"); ok && acl[i].Scheme == "digest" {
		id = user + ":..." // the rest is a hash of the password
	}
	c.Log(slog.LevelWarn, "others may create or delete below a path", "path", path,
		"acl", fmt.Sprintf("%s:%s:%s", acl[i].Scheme, id, permLetters(acl[i].Perms)))
}

// letsOthersIn reports whether an entry of an ACL allows more than Options.ACL does. The ids of
// digests may be hidden, see zkconn.Session.GetACL.
func (c *Client) letsOthersIn(a zk.ACL) bool {
	perms := a.Perms & (zk.PermCreate | zk.PermDelete | zk.PermAdmin)
	if perms == 0 || a.Scheme == "digest" && strings.HasSuffix(a.ID, ":x") {
		return false
	}
	return !slices.ContainsFunc(c.ACL, func(own zk.ACL) bool {
		return perms&^own.Perms == 0 && (own.Scheme == "world" || own.Scheme == a.Scheme && own.ID == a.ID)
	})
}

// permLetters returns permissions as ZooKeeper's command line writes them.
func permLetters(perms int32) string {
	letters := ""
	for _, p := range []struct {
		perm   int32
		letter string
	}{{zk.PermCreate, "c"}, {zk.PermDelete, "d"}, {zk.PermRead, "r"}, {zk.PermWrite, "w"}, {zk.PermAdmin, "a"}} {
		if perms&p.perm != 0 {
			letters += p.letter
		}
	}
	return letters
}

// NoteParentOf calls noteACL with the ACL of the parent of a path that the session has created. It
// reads that in the background, with one request, if the Client has not just created the parent,
// or looked at it. Everybody may create below the root, so that is left out.
func (s *Session) NoteParentOf(path string) {
	c, parent := s.Client, zkconn.Parent(path)
	if c.isAnonymous() {
		return
	}
	o := &c.others
	known := !o.look(parent)
	o.look(path)
	if parent == "" || known {
		return
	}
	c.Tasks.Start(func() { _, _, _ = s.GetACL(c.Closing, parent) }) // which calls noteACL
}

// look notes that the Client looks at a parent. It returns false if it did so a short time ago.
func (o *others) look(path string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.looked[path]) < parentInterval {
		return false
	}
	if len(o.looked) == maxWatchedACLs {
		clear(o.looked)
	}
	o.looked[path] = time.Now()
	return true
}
