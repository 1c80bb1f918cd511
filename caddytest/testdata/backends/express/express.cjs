// Express with its own defaults.
const express = require('express')
const app = express()

app.post('/login', (request, response) => response.set('X-Action', 'login').end())
app.all('/search', (request, response) => {
  if ([].concat(request.query.mode).includes('heavy')) response.set('X-Action', 'heavy')
  response.end()
})
app.listen(process.env.PORT, '127.0.0.1')
