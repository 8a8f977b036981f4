package zkkrb5

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// Whoever can answer in place of the KDC needs no key for that.
func TestAnAnswerOfAKDCThatIsTooShortIsAnError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	alice := types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "alice")
	encrypted := types.EncryptedData{EType: etypeID.AES256_CTS_HMAC_SHA1_96, Cipher: []byte("short")}
	answer := messages.ASRep{KDCRepFields: messages.KDCRepFields{
		PVNO: 5, MsgType: msgtype.KRB_AS_REP, CRealm: "R", CName: alice, EncPart: encrypted,
		Ticket: messages.Ticket{TktVNO: 5, Realm: "R", SName: alice, EncPart: encrypted},
	}}
	text, err := answer.Marshal()
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			size := make([]byte, 4)
			if _, err := io.ReadFull(nc, size); err == nil {
				io.CopyN(io.Discard, nc, int64(binary.BigEndian.Uint32(size)))
				nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
			}
			nc.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	conf := filepath.Join(t.TempDir(), "krb5.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, `[libdefaults]
  dns_lookup_kdc = false
  udp_preference_limit = 1
[realms]
  R = {
    kdc = %s
  }
`, l.Addr()), 0o600))
	c, err := New(Config{Principal: "alice@R", Password: func() (string, error) { return "s3cret", nil }, Conf: conf})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.SASL().Exchange(t.Context(), zkrecipes.SASLServer{Name: "zk1:2181", Address: "zk1:2181"})
	require.ErrorContains(t, err, "log in as alice@R: malformed or cut short")
}

func TestNoKeyOfATicketIsPrinted(t *testing.T) {
	key := newKey(etypeID.AES256_CTS_HMAC_SHA1_96)
	tgt := newTicket(nil, messages.Ticket{}, messages.EncKDCRepPart{Key: key})
	c := &Credentials{tgt: tgt, services: map[string]ticket{"zookeeper/zk1": tgt}}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		text := fmt.Sprintf(verb, c)
		for _, bytes := range []string{"%v", "%#v"} {
			require.NotContains(t, text, strings.Trim(fmt.Sprintf(bytes, key.KeyValue), "[]"), verb)
		}
	}
}

// gokrb5's error of a keytab that is cut short has its bytes, and so the keys in front.
func TestNoKeyOfAKeytabIsInAnError(t *testing.T) {
	keys := keytab.New()
	for _, name := range []string{"alice", "bob"} {
		require.NoError(t, keys.AddEntry(name, "EXAMPLE.ORG", "password of "+name, time.Unix(1, 0), 1, etypeID.AES256_CTS_HMAC_SHA1_96))
	}
	whole, err := keys.Marshal()
	require.NoError(t, err)
	key := string(keys.Entries[0].Key.KeyValue)
	require.Contains(t, string(whole), key)
	for n := range whole {
		path := filepath.Join(t.TempDir(), "keytab")
		require.NoError(t, os.WriteFile(path, whole[:n], 0o600))
		c := &Credentials{cfg: Config{Keytab: path}}
		if _, err := c.loadKeytab(); err != nil {
			require.NotContains(t, err.Error(), key)
			require.NotContains(t, err.Error(), fmt.Sprintf("%q", key))
			require.ErrorContains(t, err, path)
		}
	}
}
