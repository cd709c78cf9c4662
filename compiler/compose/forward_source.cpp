#include "compiler/compose/forward_source.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "compiler/compose/forward_guard.hpp"
#include "compiler/compose/gradient_source.hpp"
#include "compiler/compose/parts_source.hpp"
#include "compiler/compose/sized_sources.hpp"
#include "compiler/graph/graph_check.hpp"
#include "compiler/graph/operator_facts.hpp"
#include "compiler/text/python_text.hpp"
#include "embedded/compiler/compose/python/fits.py"
#include "embedded/compiler/compose/python/on_devices.py"
#include "embedded/compiler/compose/python/size_of.py"
#include "embedded/compiler/compose/python/state.py"

namespace weft {

namespace {

constexpr std::string_view kDevice = "{device}";

/// Operators that PyTorch's own functions call sooner than their overloads do:
/// by more than a microsecond, as long as a view takes. They take the same
/// arguments.
const std::map<std::string, std::string>& functions() {
  static const std::map<std::string, std::string> known = {
      {"aten.addmm.default", "torch.addmm"},
      {"aten.as_strided.default", "torch.as_strided"},
      {"aten.bmm.default", "torch.bmm"},
      {"aten.cat.default", "torch.cat"},
      {"aten.clone.default", "torch.clone"},
      {"aten.contiguous.default", "torch.Tensor.contiguous"},
      {"aten.convolution.default", "torch.convolution"},
      {"aten.embedding.default", "torch.embedding"},
      {"aten.expand.default", "torch.Tensor.expand"},
      {"aten.linear.default", "torch.nn.functional.linear"},
      {"aten.matmul.default", "torch.matmul"},
      {"aten.mm.default", "torch.mm"},
      {"aten.permute.default", "torch.permute"},
      {"aten.scaled_dot_product_attention.default",
       "torch.nn.functional.scaled_dot_product_attention"},
      {"aten.select.int", "torch.select"},
      {"aten.split_with_sizes.default", "torch.split_with_sizes"},
      {"aten.squeeze.dims", "torch.squeeze"},
      {"aten.unsqueeze.default", "torch.unsqueeze"},
      {"aten.view.default", "torch.Tensor.view"},
  };
  return known;
}

/// One line of forward(): what it needs, what it makes.
struct Step {
  std::string text;
  std::vector<std::string> uses;
  std::vector<std::string> makes;
};

class ForwardWriter {
 public:
  ForwardWriter(const Plan& plan, const std::set<std::string>& kernel_ids,
                const ProblemSource& problem, const Target& target)
      : plan_(plan), kernels_(kernel_ids), problem_(problem), target_(target) {
    while (problem.header.find(prefix_) != std::string::npos) prefix_ += "_";
    for (const Node& node : plan.model.nodes) {
      locals_[node.name] = prefix_ + node.name;
    }
  }

  ForwardSource write() {
    read_placeholders();
    plan_steps();
    mutation_steps();
    const std::string in = problem_.indent + "    ";
    std::string text = problem_.indent + "def forward" + problem_.header +
                       ":\n" + in +
                       "\"\"\"The captured computation; what was not "
                       "captured goes\n" +
                       in + "to forward_reference.\"\"\"\n";
    const std::string original = problem_.self + ".forward_reference";
    text += in + "if " + watched_condition() + ":\n" + in + "    return " +
            original + "(" + passed_on() + ")\n";
    text += size_lines(in);
    const std::string state = prefix_ + "state";
    if (!read_.empty()) {
      text += in + state + " = _weft_state(" + problem_.self + ")\n";
    }
    const std::vector<Condition> all = conditions();
    std::vector<std::string> codes;
    for (const Condition& condition : all) codes.push_back(condition.code);
    text += in + "if not (" + joined(codes, "\n" + in + "        and ") +
            "):\n" + in + "    return " +
            pass_on_text(original, all, in + "        ") + "(" + passed_on() +
            ")\n";
    text += with_gradient(in);
    if (!read_.empty()) {
      text +=
          in + "(" + joined(read_, ",\n" + in + " ") + ",) = " + state + "\n";
    }
    text += in + "with torch.no_grad():\n";
    for (const std::string& line : body()) text += in + "    " + line + "\n";
    std::string fits(embedded::compiler_compose_python_fits);
    fits.replace(fits.find(kDevice), kDevice.size(),
                 target_.loader.device_condition);
    if (!read_.empty())
      fits += modules() + std::string(embedded::compiler_compose_python_state);
    if (!plan_.model.symbolic_shapes.sizes.empty())
      fits += embedded::compiler_compose_python_size_of;
    return {operators() + pass_on_source() + fits +
                parts_source(plan_.model.parts) + gradient_functions(),
            text, defaults()};
  }

 private:
  /// Where forward() finds the sizes that are symbols.
  std::string size_lines(const std::string& in) {
    return weft::size_lines(plan_.model, in, [&](const SizeSource& source) {
      return "_weft_size_of(lambda: " + local(source.node) + ", " +
             std::to_string(source.dim) + ")";
    });
  }

  std::string local(const std::string& node) { return locals_.at(node); }

  static std::string joined(const std::vector<std::string>& parts,
                            const std::string& by) {
    std::string text;
    for (const std::string& part : parts) {
      text += (text.empty() ? "" : by) + part;
    }
    return text;
  }

  /// Inputs are the arguments themselves; the rest is read from the module at
  /// every call, since it may have been replaced. Module by module.
  void read_placeholders() {
    needed_.insert(plan_.model.outputs.begin(), plan_.model.outputs.end());
    for (const Node& node : plan_.model.nodes) {
      for_each_ref(node,
                   [&](const std::string& name) { needed_.insert(name); });
    }
    std::set<std::string> used = needed_;
    for (const Mutation& mutation : plan_.model.mutations) {
      used.insert(mutation.node);
    }
    for (const Node& node : plan_.model.nodes) {
      if (node.kind == NodeKind::call) continue;
      placeholders_.insert(node.name);
      if (node.kind == NodeKind::input) {
        locals_[node.name] = node.target;
      } else if (!used.contains(node.name)) {
        continue;
      } else if (!node.elements.empty()) {
        constants_ += constant_text(node);
        steps_.push_back({local(node.name) + " = _weft_constant_" + node.name +
                              "(" + device_of_inputs() + ")",
                          {},
                          {}});
      } else {
        std::vector<std::string> path = parts_of(node.target);
        path.pop_back();
        const auto found = std::ranges::find(
            modules_, path, [](const auto& module) { return module.first; });
        auto& module = found == modules_.end()
                           ? modules_.emplace_back(path, Tensors())
                           : *found;
        module.second.push_back(&node);
        state_[node.target] = node.name;
      }
    }
    for (const auto& [path, tensors] : modules_) {
      for (const Node* node : tensors) read_.push_back(local(node->name));
    }
  }

  /// What _weft_state() finds, and how it looks.
  std::string modules() const {
    if (modules_.empty()) return "";
    std::string text = "_weft_modules = (\n";
    for (const auto& [path, tensors] : modules_) {
      text += "    ((";
      for (const std::string& part : path) {
        text += python_string(part) + (&part == &path.back() ? "" : ", ");
      }
      text += path.size() == 1 ? ",), (\n" : "), (\n";
      for (const Node* node : tensors) {
        const TensorType& type = *node->values[0];
        text += "        (" + python_string(parts_of(node->target).back()) +
                ", " + python_tuple(type.shape) + ", " +
                python_tuple(type.stride) + ", torch." +
                std::string(dtype_name(type.dtype)) + "),\n";
      }
      text += "    )),\n";
    }
    return text + ")\n";
  }

  /// Where the model is, and so its kernels want their inputs.
  std::string device_of_inputs() {
    for (const NodeKind kind :
         {NodeKind::input, NodeKind::parameter, NodeKind::buffer}) {
      for (const Node& node : plan_.model.nodes) {
        if (node.kind != kind || node.values.empty() || !node.values[0]) {
          continue;
        }
        return (kind == NodeKind::input
                    ? node.target
                    : attribute_path(problem_.self, node.target)) +
               ".device";
      }
    }
    return "torch.device(\"cpu\")";
  }

  std::string constant_text(const Node& node) {
    const TensorType& type = *node.values.front();
    Arg::List elements;
    for (double element : node.elements) elements.push_back(Arg{element});
    return "_weft_constant_" + node.name + " = _weft_on_devices(torch.tensor(" +
           python_value(Arg{elements}) + ", dtype=torch.float64).to(torch." +
           std::string(dtype_name(type.dtype)) + ").reshape(" +
           python_tuple(type.shape) + "))\n";
  }

  std::vector<Condition> conditions() {
    std::vector<Condition> all;
    for (const std::string_view name :
         python_sizes(plan_.model.symbolic_shapes.sizes.size())) {
      all.push_back({std::string(name) + " > 0",
                     "the argument that has the batch is no tensor, or empty"});
    }
    const std::string captured = plan_.model.training ? "train" : "eval";
    if (plan_.model.parts.empty()) {
      all.push_back({std::string(plan_.model.training ? "" : "not ") +
                         problem_.self + ".training",
                     "its kernels are for " + captured + " mode"});
    }
    for (auto& condition : argument_conditions(plan_.model, problem_)) {
      all.push_back(std::move(condition));
    }
    if (!read_.empty()) {
      all.push_back({prefix_ + "state is not None",
                     "a parameter or buffer has another shape, dtype, layout "
                     "or place than when it was captured"});
    }
    const std::string autocast = "not torch.is_autocast_enabled";
    const std::string lacks = "its kernels know no autocast";
    if (target_.on_gpu) all.push_back({autocast + "(\"cuda\")", lacks});
    // Without a GPU, kernels for one may be interpreted.
    if (!target_.needs_gpu) all.push_back({autocast + "(\"cpu\")", lacks});
    if (!plan_.model.parts.empty()) {
      // The mode is a setting of whichever part reads it.
      all.push_back({"_weft_as_captured(" + problem_.self + ")",
                     "its mode, a part or a setting of it is another than when "
                     "it was captured, in " +
                         captured + " mode"});
    }
    if (writes_arguments() && !differentiable().empty()) {
      all.push_back({"not (" + wants_gradient() + ")",
                     "a gradient is wanted, and forward() writes into its "
                     "arguments: call it within torch.no_grad()"});
    }
    return all;
  }

  std::string wants_gradient() const {
    return "torch.is_grad_enabled() and _weft_wants_gradient(" +
           differentiable() + ")";
  }

  bool writes_arguments() const {
    return std::ranges::any_of(plan_.model.mutations, &Mutation::is_input);
  }

  /// The lines by which results get a gradient that is wanted.
  std::string with_gradient(const std::string& in) const {
    if (writes_arguments() || differentiable().empty()) return "";
    using Kind = PythonParameter::Kind;
    std::string given;
    std::vector<std::string> named;
    for (const PythonParameter& parameter : problem_.parameters) {
      const std::string& name = parameter.name;
      if (parameter.kind == Kind::ordinary) given += name + ", ";
      if (parameter.kind == Kind::positional_rest) given += "*" + name + ", ";
      if (parameter.kind == Kind::keyword_only) {
        named.push_back(python_string(name) + ": " + name);
      }
      if (parameter.kind == Kind::keyword_rest) named.push_back("**" + name);
    }
    return in + "if " + wants_gradient() + ":\n" + in +
           "    return _weft_with_gradient(" + problem_.self + ", [" +
           differentiable() + "], (" + given + "), {" + joined_names(named) +
           "})\n";
  }

  std::string gradient_functions() const {
    if (writes_arguments() || differentiable().empty()) return "";
    return "\n\n" + std::string(read_.empty() ? "_weft_names = ()\n" : "") +
           gradient_source(plan_.model, state_);
  }

  /// The tensors that a gradient may be wanted of, as arguments of a call.
  std::string differentiable() const {
    std::vector<std::string> found;
    for (const Node& node : plan_.model.nodes) {
      if (node.kind == NodeKind::input && !node.values.empty() &&
          node.values.front()) {
        found.push_back(node.target);
      }
    }
    if (!read_.empty()) found.push_back("*" + prefix_ + "state");
    return joined_names(found);
  }

  std::string passed_on() const {
    using Kind = PythonParameter::Kind;
    std::vector<std::string> passed;
    for (const PythonParameter& parameter : problem_.parameters) {
      const std::string& name = parameter.name;
      switch (parameter.kind) {
        case Kind::ordinary:
          passed.push_back(name);
          break;
        case Kind::keyword_only:
          passed.push_back(name + "=" + name);
          break;
        case Kind::positional_rest:
          passed.push_back("*" + name);
          break;
        case Kind::keyword_rest:
          passed.push_back("**" + name);
          break;
      }
    }
    return joined_names(passed);
  }

  void plan_steps() {
    std::map<std::string, const Placement*> placement_of;
    for (const Placement& placement : plan_.placements) {
      if (!kernels_.contains(placement.subgraph)) continue;
      for (const auto& name : placement.nodes) placement_of[name] = &placement;
    }
    std::set<const Placement*> done;
    for (const Node& node : plan_.model.nodes) {
      if (node.kind != NodeKind::call) continue;
      const auto found = placement_of.find(node.name);
      if (found == placement_of.end()) {
        if (const Mutation* counted = counted_by(node)) {
          counters_[python_value(node.args[1])].push_back(counted);
          counted_.insert(counted);
          continue;
        }
        call_step(node);
      } else if (done.insert(found->second).second) {
        kernel_step(*found->second);
      }
    }
  }

  void call_step(const Node& node) {
    Node printed = node;
    rename_refs(printed, [&](const std::string& name) { return local(name); });
    Step step;
    step.text = local(node.name) + " = ";
    if (node.target == "getitem") {
      step.text += python_call(printed);
    } else {
      step.text += operator_variable(node.target) + "(" +
                   python_arguments(printed) + ")";
    }
    for_each_ref(node,
                 [&](const std::string& name) { step.uses.push_back(name); });
    step.makes = {node.name};
    steps_.push_back(std::move(step));
  }

  std::string operator_variable(const std::string& target) {
    std::string name = "_weft_" + target;
    std::ranges::replace(name, '.', '_');
    const auto known = functions().find(target);
    operators_[name] =
        known == functions().end() ? "torch.ops." + target : known->second;
    return name;
  }

  void kernel_step(const Placement& placement) {
    Step step;
    std::vector<std::string> makes;
    std::vector<std::string> uses;
    for (const auto& name : placement.outputs) makes.push_back(local(name));
    for (const auto& name : placement.inputs) uses.push_back(local(name));
    step.text = joined_names(makes) + " = _weft_" + placement.subgraph + "(" +
                joined_names(uses) + ")";
    step.uses = placement.inputs;
    step.makes = placement.outputs;
    steps_.push_back(std::move(step));
  }

  /// The placeholder whose memory a node's value is, or "".
  std::string storage_of(const std::string& name) const {
    const Node* node = plan_.model.find(name);
    while (node && node->kind == NodeKind::call &&
           (is_view(node->target) || node->target == "getitem")) {
      const auto* source = std::get_if<NodeRef>(&node->args.at(0).value);
      node = source ? plan_.model.find(source->name) : nullptr;
    }
    return node && node->kind != NodeKind::call ? node->name : "";
  }

  void mutation_steps() {
    // A new value that is still some placeholder's memory might be written
    // over by an earlier copy: take it aside first.
    std::map<std::string, std::string> aside;
    for (const Mutation& mutation : plan_.model.mutations) {
      if (storage_of(mutation.node).empty()) continue;
      const std::string name = local(mutation.node) + "_aside";
      if (!aside.emplace(mutation.node, name).second) continue;
      steps_.push_back({name + " = " + local(mutation.node) + ".clone()",
                        {mutation.node},
                        {}});
    }
    // Inputs first, then one call for all buffers, which are memory of their
    // own: each call takes longer than the copying.
    std::vector<std::string> targets;
    std::vector<std::string> values;
    Step copies;
    for (const Mutation& mutation : plan_.model.mutations) {
      if (counted_.contains(&mutation)) continue;
      const auto found = aside.find(mutation.node);
      const std::string value =
          found == aside.end() ? local(mutation.node) : found->second;
      if (mutation.is_input) {
        steps_.push_back({local(mutation.target) + ".copy_(" + value + ")",
                          {mutation.node},
                          {}});
        continue;
      }
      targets.push_back(state_text(mutation.target));
      values.push_back(value);
      copies.uses.push_back(mutation.node);
    }
    copies.text = targets.size() == 1
                      ? targets[0] + ".copy_(" + values[0] + ")"
                      : "torch._foreach_copy_([" + joined_names(targets) +
                            "], [" + joined_names(values) + "])";
    if (!targets.empty()) steps_.push_back(std::move(copies));
    for (const auto& [number, mutations] : counters_) {
      std::vector<std::string> counted;
      for (const Mutation* mutation : mutations) {
        counted.push_back(state_text(mutation->target));
      }
      steps_.push_back({"torch._foreach_add_([" + joined_names(counted) +
                            "], " + number + ")",
                        {},
                        {}});
    }
  }

  /// A parameter or buffer where it is written.
  std::string state_text(const std::string& target) {
    const auto found = state_.find(target);
    return found == state_.end() ? attribute_path(problem_.self, target)
                                 : local(found->second);
  }

  /// The buffer that the call adds a number to, where nothing else needs the
  /// sum: num_batches_tracked of each batch norm. Else nullptr.
  const Mutation* counted_by(const Node& call) const {
    const Graph& model = plan_.model;
    if (call.target != "aten.add.Tensor" || call.args.size() != 2 ||
        !call.kwargs.empty() || !call.values.front()) {
      return nullptr;
    }
    const auto* from = std::get_if<NodeRef>(&call.args[0].value);
    const Node* buffer = from ? model.find(from->name) : nullptr;
    const bool number =
        std::holds_alternative<std::int64_t>(call.args[1].value) ||
        std::holds_alternative<double>(call.args[1].value);
    if (!buffer || !number || buffer->kind != NodeKind::buffer ||
        buffer->values != call.values || needed_.contains(call.name)) {
      return nullptr;
    }
    const auto found =
        std::ranges::find_if(model.mutations, [&](const Mutation& mutation) {
          return !mutation.is_input && mutation.node == call.name &&
                 mutation.target == buffer->target;
        });
    const auto count =
        std::ranges::count(model.mutations, call.name, &Mutation::node);
    return found == model.mutations.end() || count != 1 ? nullptr : &*found;
  }

  /// The steps, with every value dropped after its last use.
  std::vector<std::string> body() {
    std::set<std::string> needed(plan_.model.outputs.begin(),
                                 plan_.model.outputs.end());
    std::vector<std::string> backwards{"return " + result()};
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
      std::vector<std::string> dead;
      for (const auto* names : {&step->uses, &step->makes}) {
        for (const std::string& name : *names) {
          if (placeholders_.contains(name)) continue;
          if (needed.insert(name).second) dead.push_back(local(name));
        }
      }
      if (!dead.empty()) backwards.push_back("del " + joined_names(dead));
      backwards.push_back(step->text);
    }
    std::ranges::reverse(backwards);
    return backwards;
  }

  std::string result() {
    const std::string& form = plan_.model.output_template;
    std::string text;
    for (std::size_t i = 0; i < form.size(); ++i) {
      if (form[i] != '{' && form[i] != '}') {
        text += form[i];
      } else if (i + 1 < form.size() && form[i + 1] == form[i]) {
        text += form[i++];
      } else {
        std::size_t index = 0;
        for (++i; i < form.size() && form[i] >= '0' && form[i] <= '9'; ++i) {
          index = index * 10 + static_cast<std::size_t>(form[i] - '0');
        }
        if (index < plan_.model.outputs.size()) {
          text += local(plan_.model.outputs[index]);
        }
      }
    }
    return text;
  }

  std::string operators() const {
    std::string text;
    for (const auto& [name, target] : operators_) {
      text += name + " = " + target + "\n";
    }
    return constants_.empty()
               ? text
               : text +
                     std::string(embedded::compiler_compose_python_on_devices) +
                     constants_;
  }

  std::string defaults() const {
    std::string entries;
    for (const PythonParameter& parameter : problem_.parameters) {
      if (!parameter.has_default) continue;
      entries += "    \"" + parameter.name + "\",\n";
    }
    if (entries.empty()) return "";
    return "\n\n_weft_defaults = {\n"
           "    name: inspect.signature(ModelNew.forward).parameters[name]"
           ".default\n    for name in (\n" +
           entries + "    )}\n";
  }

  const Plan& plan_;
  const std::set<std::string>& kernels_;
  const ProblemSource& problem_;
  const Target& target_;
  std::string prefix_ = "_t_";
  std::map<std::string, std::string> locals_;  // node → Python name
  std::set<std::string> placeholders_;
  using Tensors = std::vector<const Node*>;
  /// Paths of modules, and what is read of each.
  std::vector<std::pair<std::vector<std::string>, Tensors>> modules_;
  std::vector<std::string> read_;             // their Python names, in order
  std::map<std::string, std::string> state_;  // target → node, of what is read
  std::set<std::string> needed_;              // by a node or the caller
  std::map<std::string, std::vector<const Mutation*>> counters_;  // by number
  std::set<const Mutation*> counted_;
  std::string constants_;
  std::map<std::string, std::string> operators_;
  std::vector<Step> steps_;
};

}  // namespace

ForwardSource forward_source(const Plan& plan,
                             const std::set<std::string>& kernel_ids,
                             const ProblemSource& problem,
                             const Target& target) {
  return ForwardWriter(plan, kernel_ids, problem, target).write();
}

}  // namespace weft
