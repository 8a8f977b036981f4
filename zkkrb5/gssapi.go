package zkkrb5

import (
	"bytes"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// exchange is the client's side of GSSAPI with Kerberos. The phases are: the client's request, the
// server's proof, what security layers there may be (none), and the server's last word.
type exchange struct {
	phase  phase
	token  []byte // the request
	auth   types.Authenticator
	ticket types.EncryptionKey // its key
	key    types.EncryptionKey // of the context
	subkey byte                // wrapFlagSubkey if key is the server's
}

type phase int

const (
	awaitsProof phase = iota
	awaitsLayers
	awaitsEnd
)

// Flags of a wrap token (RFC 4121, 4.2.2).
const (
	wrapFlagSealed = 2
	wrapFlagSubkey = 4
)

// The first bytes of tokens (RFC 4121, 4.1).
var (
	idRequest = []byte{1, 0}
	idProof   = []byte{2, 0}
	idError   = []byte{3, 0}
)

// newExchange begins an exchange with the service of a ticket.
func newExchange(name types.PrincipalName, realm string, t ticket) (*exchange, error) {
	switch t.key.KeyType {
	case etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.AES256_CTS_HMAC_SHA384_192:
	default:
		return nil, fmt.Errorf("the ticket's encryption type is %d: only those of AES are supported", t.key.KeyType)
	}
	auth, err := types.NewAuthenticator(realm, name)
	if err != nil {
		return nil, err
	}
	auth.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: checksum(gssapi.ContextFlagMutual | gssapi.ContextFlagInteg)}
	request, err := messages.NewAPReq(t.Ticket, *t.key, auth)
	if err != nil {
		return nil, err
	}
	types.SetFlag(&request.APOptions, flags.APOptionMutualRequired)
	body, err := request.Marshal()
	if err != nil {
		return nil, err
	}
	oid, err := asn1.Marshal(asn1.ObjectIdentifier(gssapi.OIDKRB5.OID()))
	if err != nil {
		return nil, err
	}
	token := asn1tools.AddASNAppTag(slices.Concat(oid, idRequest, body), 0)
	return &exchange{token: token, auth: auth, ticket: *t.key, key: *t.key}, nil
}

// checksum returns the field of an authenticator that has the flags (RFC 4121, 4.1.1), without
// channel bindings.
func checksum(contextFlags uint32) []byte {
	const bindings = 16 // their length
	b := binary.LittleEndian.AppendUint32(nil, bindings)
	b = append(b, make([]byte, bindings)...)
	return binary.LittleEndian.AppendUint32(b, contextFlags)
}

// Start returns the request.
func (e *exchange) Start() ([]byte, error) { return e.token, nil }

// Step answers the server.
func (e *exchange) Step(challenge []byte) (token []byte, done bool, err error) {
	switch e.phase {
	case awaitsProof:
		e.phase = awaitsLayers
		_, err = guard(func() ([]byte, error) { return nil, e.checkProof(challenge) })
		return nil, false, err
	case awaitsLayers:
		e.phase = awaitsEnd
		token, err = guard(func() ([]byte, error) { return e.chooseLayer(challenge) })
		return token, false, err
	}
	return nil, true, nil
}

// checkProof checks that the server could decrypt the request.
func (e *exchange) checkProof(token []byte) error {
	id, body, err := unframe(token)
	if err != nil {
		return err
	}
	if bytes.Equal(id, idError) {
		var refusal messages.KRBError
		if err := refusal.Unmarshal(body); err != nil {
			return err
		}
		return explain(refusal)
	}
	if !bytes.Equal(id, idProof) {
		return fmt.Errorf("token % x instead of the server's proof", id)
	}
	var reply messages.APRep
	if err := reply.Unmarshal(body); err != nil {
		return err
	}
	plain, err := crypto.DecryptEncPart(reply.EncPart, e.ticket, keyusage.AP_REP_ENCPART)
	if err != nil {
		return fmt.Errorf("the server's proof: %w", err)
	}
	var proof messages.EncAPRepPart
	if err := proof.Unmarshal(plain); err != nil {
		return fmt.Errorf("the server's proof: %w", err)
	}
	if proof.CTime.Unix() != e.auth.CTime.Unix() || proof.Cusec != e.auth.Cusec {
		return errors.New("the server's proof belongs to another request")
	}
	if proof.Subkey.KeyType != 0 {
		e.key, e.subkey = proof.Subkey, wrapFlagSubkey
	}
	return nil
}

// unframe returns the id and the body of a token (RFC 2743, 3.1).
func unframe(token []byte) (id, body []byte, err error) {
	var frame asn1.RawValue
	if _, err := asn1.Unmarshal(token, &frame); err != nil {
		return nil, nil, fmt.Errorf("token: %w", err)
	}
	var oid asn1.ObjectIdentifier
	rest, err := asn1.Unmarshal(frame.Bytes, &oid)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("token: %w", err)
	case frame.Class != asn1.ClassApplication || frame.Tag != 0 || !oid.Equal(asn1.ObjectIdentifier(gssapi.OIDKRB5.OID())):
		return nil, nil, fmt.Errorf("token of another mechanism: %v", oid)
	case len(rest) < 2:
		return nil, nil, errors.New("token is too short")
	}
	return rest[:2], rest[2:], nil
}

// The security layers that a server offers are a bit each (RFC 4752, 3.1).
const noLayer = 1

// chooseLayer chooses no security layer, which is all that ZooKeeper's servers offer.
func (e *exchange) chooseLayer(token []byte) ([]byte, error) {
	offer, err := e.unwrap(token)
	switch {
	case err != nil:
		return nil, fmt.Errorf("security layers: %w", err)
	case len(offer) != 4 || offer[0]&noLayer == 0:
		return nil, fmt.Errorf("the server requires a security layer (% x)", offer)
	}
	etype, err := crypto.GetEtype(e.key.KeyType)
	if err != nil {
		return nil, err
	}
	answer := gssapi.WrapToken{
		Flags:     e.subkey,
		EC:        uint16(etype.GetHMACBitLength() / 8),
		SndSeqNum: uint64(e.auth.SeqNumber),
		Payload:   []byte{noLayer, 0, 0, 0},
	}
	if err := answer.SetCheckSum(e.key, keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		return nil, err
	}
	return answer.Marshal()
}

// unwrap checks a wrap token of the server and returns what it bears.
func (e *exchange) unwrap(token []byte) ([]byte, error) {
	const header = gssapi.HdrLen
	if len(token) <= header {
		return nil, errors.New("token is too short")
	}
	if token[2]&wrapFlagSealed != 0 {
		return nil, errors.New("token is encrypted")
	}
	// The body may be rotated to the right (RFC 4121, 4.2.5).
	body := token[header:]
	by := int(binary.BigEndian.Uint16(token[6:8])) % len(body)
	token = slices.Concat(token[:header], body[by:], body[:by])
	var wrapped gssapi.WrapToken
	if err := wrapped.Unmarshal(token, true); err != nil {
		return nil, err
	}
	if ok, err := wrapped.Verify(e.key, keyusage.GSSAPI_ACCEPTOR_SEAL); !ok {
		return nil, err
	}
	return wrapped.Payload, nil
}
