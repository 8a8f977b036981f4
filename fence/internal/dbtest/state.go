package dbtest

import (
	"errors"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// State returns the SQLSTATE of an error of a database's, empty if it is none.
func State(err error) string {
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		return pg.Code
	}
	if my := (*mysql.MySQLError)(nil); errors.As(err, &my) {
		return string(my.SQLState[:])
	}
	return ""
}
