#include "compiler/compose/reference_source.hpp"
#include "compiler/fusion/signature.hpp"

namespace weft {

std::string problem_text(const Subgraph& subgraph) {
  const Graph& graph = subgraph.graph;
  std::string text =
      "Write one kernel that does the work of this piece of a model: " +
      subgraph.type + " (" + subgraph.id + ").\n\nInputs:\n";
  for (const std::string& name : input_names(graph)) {
    text += "  " + name + ": " + type_text(tensor_type(graph, name)) + "\n";
  }
  text += "\nOutputs, in this order:\n";
  for (const std::string& name : graph.outputs) {
    text += "  " + name + ": " + type_text(tensor_type(graph, name)) + "\n";
  }
  text +=
      "\nA type reads dtype[shape]{stride}; shape and stride in elements, "
      "outermost first. Shapes are fixed. Every output is a new tensor of "
      "exactly that dtype, shape and stride; inputs are not written to.\n\n"
      "Put it in kernel.py as kernel_function(" +
      joined_names(input_names(graph)) +
      "), which returns the output, or a tuple of several. It is checked "
      "against this computation in float64, on several seeds and input "
      "distributions; its error may be a few times PyTorch's own, no "
      "more. test_kernel.py checks the same by hand.\n\n"
      "Reference:\n\n";
  return text + python_function(graph, "reference", Precision::captured);
}

}  // namespace weft
