# Sinatra, with formats in routes as Rails has them.
require 'sinatra/base'
require 'rack/handler/puma'

class App < Sinatra::Base
  set :environment, :production
  set :host_authorization, { permitted_hosts: [] }
  disable :protection

  post '/login(.:format)?' do
    response['X-Action'] = 'login'
    ''
  end

  %i[get post].each do |method|
    send(method, '/search(.:format)?') do
      modes = params['mode']
      modes = modes.values if modes.is_a?(Hash)
      response['X-Action'] = 'heavy' if Array(modes).include?('heavy')
      ''
    end
  end
end
Rack::Handler::Puma.run(Rack::MethodOverride.new(App), Host: '127.0.0.1', Port: ENV.fetch('PORT').to_i, Threads: '0:2', Silent: true)
