package fence

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Header is the field of a request that has the holder's tokens: for each fence its name,
// percent-encoded except for slashes, a space, and the token in decimal. Commas separate several
// ones, and there may be several fields.
//
//	Zkrecipes-Fence: /locks/orders 18253611008
//
// In a response it says why a guard has refused the request; see [ResponseError].
//
// A proxy must pass the field on as it is, as proxies do by default, and must not add it. It may
// send a request again: a guard refuses it if a later holder has come in between.
const Header = "Zkrecipes-Fence"

// Format returns the value of [Header] for the holder. It returns ErrNoToken for a holder that has
// no fencing token.
func Format(h Holder) (string, error) {
	cs, err := claims(h)
	if err != nil {
		return "", err
	}
	var all []string
	for _, c := range cs {
		name := strings.ReplaceAll(url.PathEscape(c.name), "%2F", "/")
		all = append(all, name+" "+strconv.FormatInt(c.token, 10))
	}
	return strings.Join(all, ", "), nil
}

// Parse returns the tokens of a value of [Header]. Several values are joined by commas first. It
// returns ErrMalformed for one that is not as Format makes it, and for a name that comes twice.
func Parse(value string) (Tokens, error) {
	tokens := Tokens{}
	for one := range strings.SplitSeq(value, ",") {
		fields := strings.Fields(one)
		if len(fields) != 2 {
			return nil, fmt.Errorf("fence: %w: %q is not a name and a token", ErrMalformed, one)
		}
		name, err := url.PathUnescape(fields[0])
		if err != nil {
			return nil, fmt.Errorf("fence: %w: %w", ErrMalformed, err)
		}
		token, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("fence: %w: %w", ErrMalformed, err)
		}
		if _, twice := tokens[name]; twice {
			return nil, fmt.Errorf("fence: %w: %q comes twice", ErrMalformed, name)
		}
		tokens[name] = token
	}
	if _, err := claims(tokens); err != nil {
		return nil, fmt.Errorf("fence: %w: %w", ErrMalformed, err)
	}
	return tokens, nil
}
