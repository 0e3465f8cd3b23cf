package gpu

import "C"
