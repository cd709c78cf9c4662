#include "compiler/compose/reference_source.hpp"
#include "embedded/compiler/compose/python/contract_checks.py"

namespace weft {

namespace {}  // namespace

std::string test_source(const Subgraph& subgraph) {
  return "\"\"\"Checks kernel_function of kernel.py against reference.py (" +
         subgraph.id +
         ").\n\nRun it by hand: exit code 0 if every case is right, else 1.\n"
         "\"\"\"\n\nimport sys\n\nimport torch\n\n"
         "import kernel\nfrom kernel import kernel_function\n"
         "from reference import OUTPUTS, get_inputs, reference\n\n"
         "# Kernels for a GPU take what lies there, unless they are "
         "interpreted.\nDEVICE = \"cpu\" if getattr(kernel, "
         "\"_weft_interpreted\", True) else \"cuda\"\n\n\n" +
         python_function(subgraph.graph, "wide_reference", Precision::wide) +
         std::string(embedded::compiler_compose_python_contract_checks);
}

}  // namespace weft
