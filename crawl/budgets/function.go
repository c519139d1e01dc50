package budgets

import (
	"errors"

	"drumbeat/star"
	"drumbeat/state"
	"drumbeat/state/changes"
)

// The budget function: that of the options, or the operator's.

// flagBudgets returns the budgets of the options.
func (b *Stage) flagBudgets() (star.Budgets, error) {
	f, err := star.ParseFunction(string(b.opt.Budgets.Policy))
	return star.Budgets{Function: f, Default: b.opt.Budgets.Default, Max: b.opt.Budgets.Max,
		Ranks: b.opt.Budgets.Ranks, QueuePages: b.opt.Budgets.QueuePages, Share: b.opt.Share()}, err
}

// CheckFunction reports why a budget function cannot be used; nil is that of the options.
func (b *Stage) CheckFunction(f *changes.Function) error {
	if b.opt.Admission.Scope != state.ScopeAll {
		return errors.New("budgets are off because --scope is not all")
	}
	flags, err := b.flagBudgets()
	if err == nil && f != nil {
		_, err = budgetsOf(flags, f)
	}
	return err
}

// budgetsNow returns the budgets in force: those of the flags, with the operator's function.
func (b *Stage) budgetsNow(flags star.Budgets) (star.Budgets, error) {
	f := b.others.Operator.Function()
	if f == nil {
		return flags, nil
	}
	return budgetsOf(flags, f)
}

// budgetsOf returns budgets with another function.
func budgetsOf(flags star.Budgets, f *changes.Function) (star.Budgets, error) {
	fn, err := star.ParseFunction(f.Name)
	if err == nil {
		flags.Function, flags.Default, flags.Max = fn, f.Default, f.Max
		err = flags.Validate()
	}
	return flags, err
}

// NewFunction puts the budget function of the operator in force: for URLs that STAR checks from now on, and,
// by the goroutine "scan", for those in BEAST's queues after the current one.
func (b *Stage) NewFunction() error {
	flags, err := b.flagBudgets()
	if err != nil {
		return err
	}
	budgets, err := b.budgetsNow(flags)
	if err == nil {
		err = b.Star.SetBudgets(budgets)
	}
	if err != nil {
		return err
	}
	b.Replace()
	return nil
}

// Replace makes the goroutine "scan" place the URLs of BEAST again, because the epoch has changed.
func (b *Stage) Replace() {
	b.Star.Refresh()
	b.wakeScan.Raise()
	b.wakeSupporters.Raise()
}
