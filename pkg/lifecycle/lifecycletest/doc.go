// Package lifecycletest proves that a service keeps the contract of lifecycle.Service.
//
// Whether a service leaves goroutines behind is seen by goleak in the TestMain of the package that calls Stress. It says
// nothing about what the service does while it runs.
package lifecycletest
