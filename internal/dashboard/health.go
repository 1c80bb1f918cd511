package dashboard

func loadHealth(v *visit) (any, error) { return v.d.options.Service.Status(v.r.Context()) }
