<% String[] modes = request.getParameterValues("mode");
   if (modes != null && java.util.Arrays.asList(modes).contains("heavy")) response.setHeader("X-Action", "heavy"); %>
