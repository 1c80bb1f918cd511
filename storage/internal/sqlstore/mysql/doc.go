// Package mysql is the dialect of MySQL, version 8 or later, and of MariaDB, version 10.6 or later.
package mysql
