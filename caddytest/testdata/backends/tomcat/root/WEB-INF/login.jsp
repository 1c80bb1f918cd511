<% if (request.getMethod().equals("POST")) response.setHeader("X-Action", "login"); %>
