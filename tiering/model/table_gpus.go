package model

// Where the figures of a GPU come from.
const (
	read     = "datasheet"                                            // read there
	planner  = "datasheet; memory bandwidth as aiconfigurator has it" // read there
	recalled = "datasheet, from memory"                               // not looked up
)

// The host links, each way, in theory: 16 lanes of PCIe 4, 5 and 6, and NVLink-C2C.
const (
	pcie4 = 32
	pcie5 = 64
	c2c   = 450
)

// gpuRow is a GPU with more of what it is called.
type gpuRow struct {
	GPU
	also []string
}

// gpus are the GPUs that are known, each under the name that NVML gives it; the
// first of those that share a short name is meant by it.
var gpus = []gpuRow{
	{GPU{"A100-SXM4-80GB", 2039, 312, 0, 0, pcie4, 80, planner}, []string{"A100", "A100 SXM", "A100 80GB", "A800-SXM4-80GB", "A800"}},
	{GPU{"A100 80GB PCIe", 1935, 312, 0, 0, pcie4, 80, recalled}, []string{"A100 PCIe", "A800 80GB PCIe"}},
	{GPU{"A100-SXM4-40GB", 1555, 312, 0, 0, pcie4, 40, recalled}, []string{"A100 40GB", "A100-PCIE-40GB"}},
	{GPU{"H100 80GB HBM3", 3350, 989, 1979, 0, pcie5, 80, planner}, []string{"H100", "H100 SXM", "H100 SXM5", "H100 80GB", "H800", "H800 SXM"}},
	{GPU{"H100 PCIe", 2000, 756, 1513, 0, pcie5, 80, planner}, []string{"H100 80GB PCIe", "H800 PCIe"}},
	{GPU{"H100 NVL", 3900, 835, 1671, 0, pcie5, 94, recalled}, nil},
	{GPU{"H200", 4800, 989, 1979, 0, pcie5, 141, read}, []string{"H200 SXM", "H200 141GB HBM3e"}},
	{GPU{"H200 NVL", 4800, 836, 1671, 0, pcie5, 141, read}, nil},
	{GPU{"H20", 4000, 148, 296, 0, pcie5, 96, recalled}, nil},
	{GPU{"H20-3e", 4800, 148, 296, 0, pcie5, 141, recalled}, nil},
	{GPU{"L4", 300, 121, 242, 0, pcie4, 24, planner}, nil},
	{GPU{"L40S", 864, 362, 733, 0, pcie4, 48, planner}, nil},
	{GPU{"A10", 600, 125, 0, 0, pcie4, 24, recalled}, nil},
	{GPU{"A10G", 600, 70, 0, 0, pcie4, 24, recalled}, nil},
	{GPU{"B200", 8000, 2250, 4500, 9000, pcie5, 180, read}, []string{"B200 SXM", "B200 180GB HBM3e"}},
	{GPU{"GB200", 8000, 2500, 5000, 10000, c2c, 186, planner}, nil},
	{GPU{"GeForce RTX 4090", 1008, 165, 330, 0, pcie4, 24, recalled}, []string{"4090"}},
	{GPU{"RTX PRO 6000 Blackwell Server Edition", 1792, 467, 935, 1871, pcie5, 96, planner}, []string{"RTX PRO 6000"}},
	{GPU{"MI300X", 5300, 1307, 2615, 0, pcie5, 192, read}, []string{"AMD Instinct MI300X OAM"}},
}
