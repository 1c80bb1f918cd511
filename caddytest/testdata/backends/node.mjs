// Node's own server, with the path taken from a URL, as its manual shows.
import http from 'node:http'

http.createServer((request, response) => {
  let url
  try {
    url = new URL(request.url, 'http://localhost')
  } catch {
    response.writeHead(400).end()
    return
  }
  if (url.pathname === '/login' && request.method === 'POST') {
    response.setHeader('X-Action', 'login')
  } else if (url.pathname === '/search' && url.searchParams.getAll('mode').includes('heavy')) {
    response.setHeader('X-Action', 'heavy')
  } else {
    response.statusCode = 404
  }
  response.end()
}).listen(process.env.PORT, '127.0.0.1')
