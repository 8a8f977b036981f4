package zkkrb5

import (
	"crypto/rand"
	"encoding/asn1"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"
)

// acceptor is a server, which a test can let do something else than it should.
type acceptor struct {
	t      *testing.T
	ticket types.EncryptionKey
	key    types.EncryptionKey // of the context
	subkey bool                // key is the server's own
	flags  byte                // of its wrap token
	offer  []byte
	rotate int // its wrap token's body
	auth   types.Authenticator
}

func newKey(etype int32) types.EncryptionKey {
	size := 16
	if etype == etypeID.AES256_CTS_HMAC_SHA1_96 || etype == etypeID.AES256_CTS_HMAC_SHA384_192 {
		size = 32
	}
	key := make([]byte, size)
	rand.Read(key)
	return types.EncryptionKey{KeyType: etype, KeyValue: key}
}

// begin returns a server and the client's side of an exchange with it.
func begin(t *testing.T, etype int32) (*acceptor, *exchange) {
	key := newKey(etype)
	service := types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "zookeeper/zk1")
	e, err := newExchange(types.NewPrincipalName(nametype.KRB_NT_PRINCIPAL, "alice"), "R", ticket{
		Ticket: messages.Ticket{TktVNO: 5, Realm: "R", SName: service, EncPart: types.EncryptedData{EType: etype, KVNO: 1, Cipher: []byte("cipher")}},
		key:    &key,
	})
	require.NoError(t, err)
	return &acceptor{t: t, ticket: key, key: key, offer: []byte{noLayer, 0, 0, 0}}, e
}

// prove reads the client's request and returns the server's proof.
func (a *acceptor) prove(token []byte) []byte {
	id, body, err := unframe(token)
	require.NoError(a.t, err)
	require.Equal(a.t, idRequest, id)
	var request messages.APReq
	require.NoError(a.t, request.Unmarshal(body))
	require.NoError(a.t, request.DecryptAuthenticator(a.ticket))
	a.auth = request.Authenticator
	require.Equal(a.t, "alice", a.auth.CName.PrincipalNameString())
	require.NotZero(a.t, a.auth.Cksum.Checksum[20]&gssapi.ContextFlagMutual)
	return a.proof(a.auth.CTime, a.auth.Cusec)
}

func (a *acceptor) proof(at time.Time, micros int) []byte {
	part := messages.EncAPRepPart{CTime: at, Cusec: micros}
	if a.subkey {
		a.key = newKey(a.ticket.KeyType)
		part.Subkey = a.key
	}
	plain, err := asn1.Marshal(part)
	require.NoError(a.t, err)
	encrypted, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(plain, asnAppTag.EncAPRepPart), a.ticket, keyusage.AP_REP_ENCPART, 0)
	require.NoError(a.t, err)
	return proofOf(a.t, encrypted)
}

// proofOf returns the token of a proof, encrypted or not.
func proofOf(t *testing.T, part types.EncryptedData) []byte {
	body, err := asn1.Marshal(messages.APRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP, EncPart: part})
	require.NoError(t, err)
	return frame(t, idProof, asn1tools.AddASNAppTag(body, asnAppTag.APREP))
}

func frame(t *testing.T, id, body []byte) []byte {
	oid, err := asn1.Marshal(asn1.ObjectIdentifier(gssapi.OIDKRB5.OID()))
	require.NoError(t, err)
	return asn1tools.AddASNAppTag(slices.Concat(oid, id, body), 0)
}

// layers returns the token with the security layers that the server offers.
func (a *acceptor) layers() []byte {
	e, err := crypto.GetEtype(a.key.KeyType)
	require.NoError(a.t, err)
	const fromAcceptor = 1
	w := gssapi.WrapToken{Flags: fromAcceptor | a.flags, EC: uint16(e.GetHMACBitLength() / 8), SndSeqNum: 7, Payload: a.offer}
	require.NoError(a.t, w.SetCheckSum(a.key, keyusage.GSSAPI_ACCEPTOR_SEAL))
	token, err := w.Marshal()
	require.NoError(a.t, err)
	body := token[gssapi.HdrLen:]
	binary.BigEndian.PutUint16(token[6:], uint16(a.rotate))
	by := len(body) - a.rotate%len(body)
	return slices.Concat(token[:gssapi.HdrLen], body[by:], body[:by])
}

// accepts checks the layer that the client has chosen.
func (a *acceptor) accepts(token []byte) {
	var w gssapi.WrapToken
	require.NoError(a.t, w.Unmarshal(token, false))
	ok, err := w.Verify(a.key, keyusage.GSSAPI_INITIATOR_SEAL)
	require.NoError(a.t, err)
	require.True(a.t, ok)
	require.Equal(a.t, []byte{noLayer, 0, 0, 0}, w.Payload)
	require.Equal(a.t, a.subkey, w.Flags&wrapFlagSubkey != 0)
	require.EqualValues(a.t, a.auth.SeqNumber, w.SndSeqNum)
}

func TestBothSidesAuthenticateEachOther(t *testing.T) {
	for _, etype := range []int32{
		etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA384_192,
	} {
		for _, subkey := range []bool{false, true} {
			for _, rotate := range []int{0, 5, 1000} {
				a, e := begin(t, etype)
				a.subkey, a.rotate, a.offer = subkey, rotate, []byte{noLayer | 2 | 4, 1, 0, 0}
				request, err := e.Start()
				require.NoError(t, err)
				token, done, err := e.Step(a.prove(request))
				require.NoError(t, err)
				require.False(t, done)
				require.Empty(t, token)
				token, done, err = e.Step(a.layers())
				require.NoError(t, err)
				require.False(t, done)
				a.accepts(token)
				token, done, err = e.Step(nil)
				require.NoError(t, err)
				require.True(t, done)
				require.Empty(t, token)
			}
		}
	}
}

func TestAServerWithoutTheKeyIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		proof func(a *acceptor) []byte
		says  string
	}{
		"another key": {func(a *acceptor) []byte {
			a.ticket = newKey(a.ticket.KeyType)
			return a.proof(a.auth.CTime, a.auth.Cusec)
		}, "integrity verification failed"},
		"an earlier proof":    {func(a *acceptor) []byte { return a.proof(a.auth.CTime.Add(-time.Second), a.auth.Cusec) }, "another request"},
		"other microseconds":  {func(a *acceptor) []byte { return a.proof(a.auth.CTime, a.auth.Cusec+1) }, "another request"},
		"none":                {func(*acceptor) []byte { return nil }, "token: "},
		"another mechanism":   {func(*acceptor) []byte { return asn1tools.AddASNAppTag([]byte{6, 1, 42, 2, 0}, 0) }, "another mechanism"},
		"a frame alone":       {func(a *acceptor) []byte { return frame(t, nil, nil) }, "too short"},
		"the client's own id": {func(a *acceptor) []byte { return frame(t, idRequest, nil) }, "instead of the server's proof"},
		"an error": {func(*acceptor) []byte {
			refusal := messages.NewKRBError(types.PrincipalName{}, "R", errorcode.KRB_AP_ERR_SKEW, "")
			b, err := refusal.Marshal()
			require.NoError(t, err)
			return frame(t, idError, b)
		}, "the clocks of this machine and of the KDC differ too much"},
	} {
		t.Run(name, func(t *testing.T) {
			a, e := begin(t, etypeID.AES256_CTS_HMAC_SHA1_96)
			request, err := e.Start()
			require.NoError(t, err)
			a.prove(request)
			_, done, err := e.Step(tt.proof(a))
			require.False(t, done)
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func TestASecurityLayerThatTheServerRequiresIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(a *acceptor)
		says   string
	}{
		"integrity alone":  {func(a *acceptor) { a.offer = []byte{2, 0, 255, 255} }, "requires a security layer"},
		"too short":        {func(a *acceptor) { a.offer = []byte{noLayer} }, "requires a security layer"},
		"another key":      {func(a *acceptor) { a.key = newKey(a.key.KeyType) }, "checksum mismatch"},
		"encrypted":        {func(a *acceptor) { a.flags = wrapFlagSealed }, "encrypted"},
		"the key it chose": {func(a *acceptor) { a.subkey = true; a.proof(a.auth.CTime, 0) }, "checksum mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			a, e := begin(t, etypeID.AES256_CTS_HMAC_SHA1_96)
			request, err := e.Start()
			require.NoError(t, err)
			_, _, err = e.Step(a.prove(request))
			require.NoError(t, err)
			tt.change(a)
			_, done, err := e.Step(a.layers())
			require.False(t, done)
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func TestATicketOfAnOldEncryptionTypeIsRefused(t *testing.T) {
	_, err := newExchange(types.PrincipalName{}, "R", ticket{key: &types.EncryptionKey{KeyType: etypeID.RC4_HMAC}})
	require.ErrorContains(t, err, "only those of AES are supported")
}

func TestAProofThatIsTooShortIsRefused(t *testing.T) {
	for _, etype := range []int32{
		etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA384_192,
	} {
		for n := range 64 {
			_, e := begin(t, etype)
			_, done, err := e.Step(proofOf(t, types.EncryptedData{EType: etype, Cipher: make([]byte, n)}))
			require.False(t, done)
			require.Error(t, err)
		}
	}
}

// No token of a server makes a client panic.
func FuzzExchange(f *testing.F) {
	f.Add([]byte{0x60, 2, 6, 0}, []byte{5, 4, 1, 255, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		a, e := begin(t, etypeID.AES128_CTS_HMAC_SHA1_96)
		_, _, err := e.Step(first)
		require.Error(t, err)
		request, err := e.Start()
		require.NoError(t, err)
		e.phase = awaitsProof
		_, _, err = e.Step(a.prove(request))
		require.NoError(t, err)
		_, _, err = e.Step(second)
		require.Error(t, err)
	})
}
