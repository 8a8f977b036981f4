package zktest_test

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/internal/conformance"
	"github.com/zkrecipes/zkrecipes/internal/jute"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func TestDigestAlgorithmDecidesTheIDsThatACLsName(t *testing.T) {
	sum := sha256.Sum256([]byte("me:pw"))
	id := "me:" + base64.StdEncoding.EncodeToString(sum[:])
	c := open(t, zktest.NewServer(t, zktest.DigestAlgorithm(crypto.SHA256)))
	require.Zero(t, c.CallAs(jute.XidAuth, conformance.Auth("digest", "me:pw")).Err)
	c.Ok(conformance.Create("/n", nil, conformance.All("digest", id), 0), conformance.GetData("/n", false))
	sha1 := zk.DigestACL(zk.PermAll, "me", "pw")[0].ID
	c.Ok(conformance.Create("/other", nil, conformance.All("digest", sha1), 0))
	c.Fails(jute.ErrNoAuth, conformance.GetData("/other", false))
}
