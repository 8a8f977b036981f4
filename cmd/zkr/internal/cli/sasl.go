//go:build unix

package cli

import (
	"context"
	"strings"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/zkkrb5"
)

// sasl returns the mechanism of SASL, or nil without one. No error shows a password.
func (a *app) sasl(ctx context.Context) (*zkrecipes.SASL, error) {
	user := a.config.get("ZKR_SASL_USER")
	cfg := zkkrb5.Config{
		Principal: a.config.get("ZKR_KRB5_PRINCIPAL"), Keytab: a.config.get("ZKR_KRB5_KEYTAB"), Conf: a.config.get("ZKR_KRB5_CONF"),
	}
	switch kerberos := cfg.Principal != "" || cfg.Keytab != ""; {
	case kerberos && user != "":
		return nil, failf(exitConfig, "ZKR_SASL_USER and Kerberos exclude each other")
	case kerberos:
		credentials, err := zkkrb5.New(cfg)
		if err != nil {
			return nil, failf(exitConfig, "%w", err)
		}
		a.krb5 = credentials
		return credentials.SASL(), nil
	case user == "":
		return nil, nil
	}
	password := a.config.get("ZKR_SASL_PASSWORD")
	if path := a.config.get("ZKR_SASL_PASSWORD_FILE"); path != "" {
		text, err := readPrivate(ctx, path)
		if err != nil {
			return nil, err
		}
		password = strings.TrimRight(string(text), "\r\n")
	}
	if password == "" {
		return nil, failf(exitConfig, "ZKR_SASL_USER needs ZKR_SASL_PASSWORD or ZKR_SASL_PASSWORD_FILE")
	}
	return zkrecipes.SASLDigest(user, password), nil
}
