package group

import (
	"crypto/rand"
	"strings"

	"github.com/zkrecipes/zkrecipes/internal/session"
	"github.com/zkrecipes/zkrecipes/internal/zkconn"
)

// maxIdentity bounds what an id that is not given has of Options.Identity.
const maxIdentity = 64

// NewID returns an id that no other member has.
func NewID(identity string) string {
	id := identity + "-" + rand.Text()
	if len(identity) > maxIdentity || CheckID(id) != nil {
		return rand.Text()
	}
	return id
}

// CheckID refuses an id that no znode can have as its name.
func CheckID(id string) error {
	if strings.Contains(id, "/") {
		return zkconn.Errorf(zkconn.ErrInvalidPath, `the id %q contains "/"`, id)
	}
	if err := session.CheckPath("/" + id); err != nil {
		return zkconn.Errorf(zkconn.ErrInvalidPath, "the id %q is not valid: %v", id, err)
	}
	return nil
}
