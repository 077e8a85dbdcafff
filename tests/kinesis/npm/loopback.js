// node -r ./loopback.js SERVER: whatever the server listens on becomes a free port of loopback, and the line
// "listening ASKED GIVEN" says which. It ends when its standard input does, so that a killed test run leaves no server.
'use strict'
const net = require('net')
const listen = net.Server.prototype.listen

net.Server.prototype.listen = function (first, ...rest) {
  const asked = typeof first === 'object' ? first.port : Number(first)
  const told = rest.find((one) => typeof one === 'function')
  this.once('listening', () => process.stdout.write(`listening ${asked} ${this.address().port}\n`))
  return listen.call(this, { host: '127.0.0.1', port: 0 }, ...(told ? [told] : []))
}

process.stdin.on('end', () => process.exit(0)).resume()
