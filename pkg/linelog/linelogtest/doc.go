// Package linelogtest runs a log for tests: a broker in memory, real connections on loopback, and switches that make them
// fail. It wraps the real thing: nothing of linelog is replaced.
//
//	b := linelogtest.Start(t)
//	log := b.Log(t)              // a *linelog.Log; closed with the test
//	b.Away(); …; b.Back()        // the brokers are gone: connections are refused, those that live are cut
//	b.Hang(); …; b.Back()        // the brokers take requests and don't answer
//	b.LoseProduceReplies(1)      // written, and answered with a time-out
//	b.RefuseProduces(1)          // not written, and an error that says nothing
//
// Every Log of Broker.Link has switches of its own: cutting one is what a crash of its process looks like to the others.
package linelogtest
