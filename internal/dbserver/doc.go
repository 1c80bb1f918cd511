// Package dbserver starts servers of databases for tests, from what is installed: each with a
// folder and a port of its own, so that it can be killed and started again. It is for tests
// only.
package dbserver
