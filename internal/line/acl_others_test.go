package line_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
)

const openToOthers = "others may create or delete below a path"

// The client that creates a path first decides who may use it, whatever Options.ACL says.
func TestAPathThatLetsOthersInIsLoggedOnce(t *testing.T) {
	secret, all := auth("app:secret"), zk.WorldACL(zk.PermAll)
	created := func(acl []zk.ACL) func(*recipetest.World) {
		return func(w *recipetest.World) {
			_, err := w.Bare().Create("/apps", nil, 0, acl)
			require.NoError(w.T, err)
		}
	}
	locked := func(opts *zkrecipes.Options) func(*recipetest.World) {
		return func(w *recipetest.World) {
			require.NoError(w.T, zkrecipes.NewMutex(w.Stranger(opts), "/apps/a").Do(w.T.Context(), recipetest.Nothing))
		}
	}
	type row struct {
		before func(*recipetest.World) // nil: nothing
		opts   zkrecipes.Options
		want   []string // "path=.. acl=.."
	}
	recipetest.EachInBubble(t, map[string]row{
		"a line and its parent, by a client without credentials": {
			locked(nil), zkrecipes.Options{Auth: secret},
			[]string{"path=/apps/a acl=world:anyone:cdrwa", "path=/apps acl=world:anyone:cdrwa"},
		},
		"a parent, by an operator": {
			created(all), zkrecipes.Options{Auth: secret}, []string{"path=/apps acl=world:anyone:cdrwa"},
		},
		"a parent whose ids are hidden": {
			created(append(zk.DigestACL(zk.PermAll, "op", "s"), zk.WorldACL(zk.PermRead|zk.PermCreate|zk.PermDelete)...)),
			zkrecipes.Options{Auth: secret}, []string{"path=/apps acl=world:anyone:cdr"},
		},
		"a parent of another's credential, whose password is not told": {
			created(append(zk.DigestACL(zk.PermAll, "app", "secret"), zk.DigestACL(zk.PermAll, "bob", "hidden")...)),
			zkrecipes.Options{Auth: secret}, []string{`path=/apps acl=digest:bob:...:cdrwa`},
		},
		"a parent that others may read":         {created(append(zk.DigestACL(zk.PermAll, "app", "secret"), zk.WorldACL(zk.PermRead)...)), zkrecipes.Options{Auth: secret}, nil},
		"paths of clients with that credential": {locked(&zkrecipes.Options{Auth: secret}), zkrecipes.Options{Auth: secret}, nil},
		"paths of its own":                      {nil, zkrecipes.Options{Auth: secret}, nil},
		"Options.ACL lets everybody in":         {created(all), zkrecipes.Options{Auth: secret, ACL: all}, nil},
		"no credentials":                        {created(all), zkrecipes.Options{}, nil},
	}, func(t *testing.T, w *recipetest.World, tt row) {
		if tt.before != nil {
			tt.before(w)
		}
		var log recipetest.Warnings
		tt.opts.Logger = log.Logger()
		c := w.Stranger(&tt.opts)
		for _, path := range []string{"/apps/a", "/apps/b", "/apps/c"} {
			for range 3 {
				require.NoError(t, zkrecipes.NewMutex(c, path).Do(t.Context(), recipetest.Nothing))
				time.Sleep(time.Second)
			}
		}
		synctest.Wait()
		records := log.With(openToOthers)
		require.Len(t, records, len(tt.want), "%s", records)
		for i, want := range tt.want {
			require.Contains(t, records[i], want)
		}
		requests := w.Requests(func() { require.NoError(t, zkrecipes.NewMutex(c, "/apps/c").Do(t.Context(), recipetest.Nothing)) })
		require.Zero(t, requests["getACL"])
	})
}
