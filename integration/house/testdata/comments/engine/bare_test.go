package engine

func Exported() {}
