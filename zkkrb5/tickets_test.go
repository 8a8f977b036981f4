package zkkrb5

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/zkrecipes/zkrecipes"
)

// serveKDC answers requests over TCP in place of the KDC of the realms R and S, and returns credentials
// that ask there, and have a ticket granting ticket of R.
func serveKDC(t *testing.T, answer func(request []byte) []byte) *Credentials {
	l, err := net.Listen("tcp", "127.0.0.1:0")
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
				request := make([]byte, binary.BigEndian.Uint32(size))
				io.ReadFull(nc, request)
				text := answer(request)
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
    kdc = %[1]s
  }
  S = {
    kdc = %[1]s
  }
`, l.Addr()), 0o600))
	c, err := New(Config{Principal: "alice@R", Password: func() (string, error) { return "s3cret", nil }, Conf: conf})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	c.tgt = aged(0)
	return c
}

// aged returns a ticket that has lived for that part of its hour.
func aged(part time.Duration) ticket {
	key := newKey(etypeID.AES256_CTS_HMAC_SHA1_96)
	service := types.NewPrincipalName(nametype.KRB_NT_SRV_INST, "krbtgt/R")
	return ticket{
		Ticket: messages.Ticket{TktVNO: 5, Realm: "R", SName: service, EncPart: types.EncryptedData{EType: key.KeyType, Cipher: []byte("cipher")}},
		key:    &key, since: time.Now().Add(-part), until: time.Now().Add(time.Hour - part),
	}
}

var alice = types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "alice")

// grants answers a request for a ticket with one for that service, encrypted with the key of the ticket
// that it was asked with. It returns the key of the ticket, too.
func grants(t *testing.T, request messages.TGSReq, service types.PrincipalName, with types.EncryptionKey) ([]byte, types.EncryptionKey) {
	key, now := newKey(etypeID.AES256_CTS_HMAC_SHA1_96), time.Now().UTC().Truncate(time.Second)
	part := messages.EncKDCRepPart{
		Key: key, Nonce: request.ReqBody.Nonce, Flags: types.NewKrbFlags(),
		AuthTime: now, StartTime: now, EndTime: now.Add(time.Hour), SRealm: request.ReqBody.Realm, SName: service,
	}
	plain, err := part.Marshal()
	require.NoError(t, err)
	encrypted, err := crypto.GetEncryptedData(plain, with, keyusage.TGS_REP_ENCPART_SESSION_KEY, 0)
	require.NoError(t, err)
	reply := messages.TGSRep{KDCRepFields: messages.KDCRepFields{
		PVNO: 5, MsgType: msgtype.KRB_TGS_REP, CRealm: "R", CName: alice, EncPart: encrypted,
		Ticket: messages.Ticket{TktVNO: 5, Realm: request.ReqBody.Realm, SName: service, EncPart: types.EncryptedData{EType: key.KeyType, Cipher: []byte("cipher")}},
	}}
	text, err := reply.Marshal()
	require.NoError(t, err)
	return text, key
}

func read(t *testing.T, text []byte) (request messages.TGSReq) {
	require.NoError(t, request.Unmarshal(text))
	return request
}

// Whoever can answer in place of the KDC needs no key for that.
func TestAnAnswerOfAKDCThatIsTooShortIsAnError(t *testing.T) {
	encrypted := types.EncryptedData{EType: etypeID.AES256_CTS_HMAC_SHA1_96, Cipher: []byte("short")}
	answer := messages.ASRep{KDCRepFields: messages.KDCRepFields{
		PVNO: 5, MsgType: msgtype.KRB_AS_REP, CRealm: "R", CName: alice, EncPart: encrypted,
		Ticket: messages.Ticket{TktVNO: 5, Realm: "R", SName: alice, EncPart: encrypted},
	}}
	text, err := answer.Marshal()
	require.NoError(t, err)
	c := serveKDC(t, func([]byte) []byte { return text })
	c.tgt = ticket{}
	_, err = c.SASL().Exchange(t.Context(), zkrecipes.SASLServer{Name: "zk1:2181", Address: "zk1:2181"})
	require.ErrorContains(t, err, "log in as alice@R: malformed or cut short")
}

// A host that is down drops what is sent to it, so each request takes as long as it may.
func TestAValidTicketIsUsedWithoutWaitingForAKDCThatHangs(t *testing.T) {
	c := serveKDC(t, func([]byte) []byte { return nil })
	old := aged(55 * time.Minute)
	c.services["zookeeper/zk1"] = old
	c.kdc.Lock()
	defer c.kdc.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := c.ticketFor(ctx, "zookeeper/zk1")
	require.NoError(t, err)
	require.Equal(t, old, got)
	require.NoError(t, ctx.Err(), "time is left to connect")
}

func TestAServiceThatTheKDCHasForgottenKeepsNoOtherTicketFromBeingRenewed(t *testing.T) {
	var c *Credentials
	c = serveKDC(t, func(text []byte) []byte {
		request := read(t, text)
		if request.ReqBody.SName.PrincipalNameString() == "zookeeper/zk1" {
			refusal := messages.NewKRBError(request.ReqBody.SName, "R", errorcode.KDC_ERR_S_PRINCIPAL_UNKNOWN, "")
			text, err := refusal.Marshal()
			require.NoError(t, err)
			return text
		}
		text, _ = grants(t, request, request.ReqBody.SName, *c.tgt.key)
		return text
	})
	c.services["zookeeper/zk1"], c.services["zookeeper/zk2"] = aged(59*time.Minute), aged(59*time.Minute)
	require.False(t, c.renewAll(), "it is tried again")
	require.False(t, c.services["zookeeper/zk1"].isFresh())
	require.True(t, c.services["zookeeper/zk2"].isFresh())
}

func TestNothingIsAskedOnceTheCredentialsAreClosed(t *testing.T) {
	c := serveKDC(t, func([]byte) []byte {
		t.Error("it is asked")
		return nil
	})
	require.NoError(t, c.Close())
	_, err := c.ask("zookeeper/zk1")
	require.ErrorIs(t, err, errClosed)
}

// gokrb5 would renew the ticket for the other realm for ever.
func TestATicketOfAnotherRealmLeavesNoGoroutineBehind(t *testing.T) {
	var c *Credentials
	var foreign types.EncryptionKey
	c = serveKDC(t, func(text []byte) []byte {
		request := read(t, text)
		if request.ReqBody.Realm == "R" {
			text, foreign = grants(t, request, types.NewPrincipalName(nametype.KRB_NT_SRV_INST, "krbtgt/S"), *c.tgt.key)
		} else {
			text, _ = grants(t, request, request.ReqBody.SName, foreign)
		}
		return text
	})
	before := goleak.IgnoreCurrent()
	got, err := c.ask("zookeeper/zk1")
	require.NoError(t, err)
	require.Equal(t, "S", got.Realm)
	require.NoError(t, c.Close())
	goleak.VerifyNone(t, before)
}

// A machine that has slept for longer than a ticket lives must not use it.
func TestATicketAgesWhileTheMachineSleeps(t *testing.T) {
	now := time.Now()
	got := newTicket(messages.Ticket{}, messages.EncKDCRepPart{StartTime: now, EndTime: now.Add(time.Hour)})
	require.Equal(t, got.until, got.until.Round(0), "its end is that of a clock which does not stand still")
}

func TestNoKeyOfATicketIsPrinted(t *testing.T) {
	key := newKey(etypeID.AES256_CTS_HMAC_SHA1_96)
	tgt := newTicket(messages.Ticket{}, messages.EncKDCRepPart{Key: key})
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
