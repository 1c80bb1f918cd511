# A Rack application without a framework.
require 'rack'
require 'rack/handler/webrick'
require 'webrick'

app = lambda do |env|
  request = Rack::Request.new(env)
  path = Rack::Utils.unescape_path(request.path_info).chomp('/')
  begin
    heavy = Array(request.params['mode'].then { |mode| mode.is_a?(Hash) ? mode.values : mode }).include?('heavy')
  rescue StandardError
    heavy = false
  end
  headers = {}
  headers['X-Action'] = 'login' if path == '/login' && request.post?
  headers['X-Action'] = 'heavy' if path == '/search' && heavy
  [200, headers, []]
end
quiet = WEBrick::Log.new(File::NULL)
Rack::Handler::WEBrick.run(Rack::MethodOverride.new(app), Host: '127.0.0.1', Port: ENV.fetch('PORT').to_i, Logger: quiet, AccessLog: [])
