package main

import (
	"fmt"
	"io"
)

// exitCode is how a command ends.
type exitCode int

// The one list of exit codes. When several apply, the first in exitTable wins.
const (
	exitPass        exitCode = 0 // done; with a budget: P99 is under it
	exitError       exitCode = 1 // could not do, or not finish, what was asked
	exitUsage       exitCode = 2 // the command line is wrong; nothing was touched
	exitOverBudget  exitCode = 3 // P99 of block reads is over the budget
	exitCannotJudge exitCode = 4 // too few or too scattered samples for a verdict
	exitDamage      exitCode = 5 // wrong or damaged bytes were met
)

var exitTable = []struct {
	code    exitCode
	meaning string
}{
	{exitUsage, "usage: the command line is wrong, nothing was touched"},
	{exitError, "error: could not do, or not finish, what was asked"},
	{exitDamage, "damage: wrong or damaged bytes were met"},
	{exitOverBudget, "over budget: P99 of block reads is over --budget"},
	{exitCannotJudge, "cannot judge: too few or too scattered reads for a verdict"},
	{exitPass, "done; with --budget: P99 of block reads is under it"},
}

// rank is the place in exitTable.
func (c exitCode) rank() int {
	for i, row := range exitTable {
		if row.code == c {
			return i
		}
	}
	panic("exit code without a row")
}

func printExitCodes(w io.Writer) error {
	if _, err := fmt.Fprintln(w, "\nExit codes (the first that applies):"); err != nil {
		return err
	}
	for _, row := range exitTable {
		if _, err := fmt.Fprintf(w, "  %d  %s\n", row.code, row.meaning); err != nil {
			return err
		}
	}
	return nil
}
