// Package wal is a sample.
package wal

func  f( )  {}
