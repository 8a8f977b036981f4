package line_test

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/harness"
	"github.com/zkrecipes/zkrecipes/internal/recipetest"
	"github.com/zkrecipes/zkrecipes/internal/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Without credentials, everybody may set the data of a place, a claim, a slot, a leader or a
// member. What is held stays held, and can be given back.
func TestASetOfAnOperatorsOnWhatASessionHoldsEndsNothing(t *testing.T) {
	for recipe, use := range recipetest.Recipes {
		t.Run(recipe, func(t *testing.T) {
			recipetest.InBubble(t, func(t *testing.T, w *recipetest.World) {
				conn, path := w.Bare(), "/recipe"
				giveBack, err := use(t.Context(), w.Stranger(nil), path)
				require.NoError(t, err)
				synctest.Wait() // a barrier's members leave as they enter
				ephemeral := ephemeralsBelow(t, conn, path)
				require.Equal(t, recipe != "gate" && recipe != "barrier", len(ephemeral) > 0) // a gate is persistent
				for _, znode := range ephemeral {
					_, err := conn.Set(znode, []byte("released"), -1)
					require.NoError(t, err)
				}
				time.Sleep(time.Minute)
				require.NoError(t, giveBack())
				require.NoError(t, recipetest.UseOnce(t.Context(), recipe, w.Stranger(nil), path))
			})
		})
	}
}

// ephemeralsBelow returns the ephemeral znodes below a path.
func ephemeralsBelow(t *testing.T, conn *zk.Conn, path string) (all []string) {
	t.Helper()
	names, stat, err := conn.Children(path)
	require.NoError(t, err)
	if stat.EphemeralOwner != 0 {
		all = append(all, path)
	}
	for _, name := range names {
		all = append(all, ephemeralsBelow(t, conn, path+"/"+name)...)
	}
	return all
}

// Servers that compute the ids of digest credentials by another algorithm than SHA-1 give
// rights by ids that Options.ACL lists. The default lists those of SHA-1, which nobody has there.
func TestRealServersWithAnotherDigestAlgorithmNeedAnACL(t *testing.T) {
	t.Parallel()
	const flag = "-Dzookeeper.DigestAuthenticationProvider.digestAlg=SHA-256"
	server := harness.OwnServer(t, zkserver.Config{JVMFlags: []string{flag}}, zktest.DigestAlgorithm(crypto.SHA256))
	path, ctx := harness.NewPath(t), harness.Within(t, 2*time.Minute)
	harness.MakeParents(t, harness.RawTo(t, []string{server}), path)
	sum := sha256.Sum256([]byte("app:secret"))
	listed := []zk.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: "app:" + base64.StdEncoding.EncodeToString(sum[:])}}
	for recipe := range recipetest.Recipes {
		t.Run(recipe, func(t *testing.T) {
			c := recipetest.DialTo(t, []string{server}, &zkrecipes.Options{Auth: auth("app:secret"), ACL: listed})
			require.NoError(t, recipetest.UseOnce(ctx, recipe, c, path+"/"+recipe))
			wrong := recipetest.DialTo(t, []string{server}, &zkrecipes.Options{Auth: auth("app:secret")})
			if recipe != "gate" { // it needs no rights on its own znode
				require.ErrorIs(t, recipetest.UseOnce(ctx, recipe, wrong, path+"/wrong "+recipe), zk.ErrNoAuth)
			}
		})
	}
}
