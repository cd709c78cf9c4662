#include "compiler/compose/kernel_module.hpp"

#include "compiler/compose/compose.hpp"
#include "compiler/compose/reference_source.hpp"
#include "compiler/compose/sized_sources.hpp"
#include "embedded/compiler/compose/python/built.py"
#include "embedded/compiler/compose/python/cache.py"
#include "embedded/compiler/compose/python/launch.py"
#include "embedded/compiler/compose/python/loader.py"
#include "embedded/compiler/compose/python/restride.py"

namespace weft {

namespace {

constexpr std::string_view kImports = R"py(import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile

import torch  # before any kernel: they share its OpenMP threads

)py";

/// Some element is seen many times (stride 0): a tensor of that layout cannot
/// be written, so one that lies otherwise cannot be brought into it.
bool overlaps(const TensorType& type) {
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    if (type.stride[i] == 0 && type.shape[i] > 1) return true;
  }
  return false;
}

/// Where a kernel's Python finds the sizes that are symbols. Where it cannot,
/// the check of such a kernel says what is wrong.
std::string size_lines(const Graph& graph) {
  return weft::size_lines(graph, "    ", [](const SizeSource& source) {
    return source.node + ".shape[" + std::to_string(source.dim) + "]";
  });
}

/// What a call takes after its tensors.
void append_sizes(const Graph& graph, std::vector<std::string>& arguments) {
  if (!graph.symbolic_shapes.is_symbolic()) return;
  const auto names = python_sizes(graph.symbolic_shapes.sizes.size());
  arguments.insert(arguments.end(), names.begin(), names.end());
}

}  // namespace

std::string cache_source() {
  return std::string(embedded::compiler_compose_python_cache);
}

std::string launch_source() {
  return std::string(embedded::compiler_compose_python_built) +
         std::string(embedded::compiler_compose_python_launch);
}

std::string restride_source() {
  return std::string(embedded::compiler_compose_python_restride);
}

std::string opening_lines(const Graph& graph, const std::string& name) {
  std::string body =
      graph.symbolic_shapes.is_symbolic() ? size_lines(graph) : "";
  for (const std::string& input : input_names(graph)) {
    const TensorType& type = tensor_type(graph, input);
    const std::string stride = python_tuple(type.stride);
    body += "    if " + input + ".stride() != " + stride + ":\n        ";
    if (overlaps(type)) {
      body += "raise RuntimeError(\"" + name + ": " + input +
              " must have the stride " + stride + "\")\n";
    } else {
      body += input + " = _weft_restride(" + input + ", " +
              python_tuple(type.shape) + ", " + stride + ")\n";
    }
  }
  return body;
}

std::string loader_source(const std::vector<std::string>& build_flags) {
  std::string flags;
  for (const std::string& flag : build_flags) {
    flags += "    " + python_string(flag) + ",\n";
  }
  return std::string(kImports) + "_weft_flags = [\n" + flags + "]\n\n\n" +
         cache_source() +
         std::string(embedded::compiler_compose_python_loader) +
         restride_source();
}

std::string kernel_function_source(const Graph& graph, const std::string& name,
                                   std::string_view cpp_source) {
  const auto inputs = input_names(graph);
  std::string body = opening_lines(graph, name);
  std::vector<std::string> addresses;
  for (const std::string& input : inputs) {
    addresses.push_back(input + ".data_ptr()");
  }
  std::vector<std::string> results;
  for (const std::string& output : graph.outputs) {
    const TensorType& type = tensor_type(graph, output);
    results.push_back("y" + std::to_string(results.size()));
    body += "    " + results.back() + " = torch.empty_strided(" +
            python_tuple(type.shape) + ", " + python_tuple(type.stride) +
            ", dtype=torch." + std::string(dtype_name(type.dtype)) +
            ", device=_weft_cpu)\n";
    addresses.push_back(results.back() + ".data_ptr()");
  }
  const std::string call = "_weft_call_" + name;
  const std::size_t tensors = addresses.size();
  append_sizes(graph, addresses);
  std::string counts = std::to_string(tensors);
  if (graph.symbolic_shapes.is_symbolic()) {
    counts += ", " + std::to_string(addresses.size() - tensors);
  }
  return call + " = _weft_open(" + python_text_block(cpp_source) + ", " +
         counts + ")\n\n\ndef " + name + "(" + joined_names(inputs) + "):\n" +
         body + "    " + call + "(" + joined_names(addresses) +
         ")\n    return " + joined_names(results) + "\n";
}

std::string kernel_module_source(const Subgraph& subgraph,
                                 const ComposedKernel& kernel) {
  const auto printed = [&](const Graph& graph) {
    return "\"\"\"" + subgraph.id + ": " + subgraph.type + ", variant " +
           kernel.variant + "; made by weft.\"\"\"\n\n" +
           kernel.target->loader.module_source() +
           kernel.target->loader.function_source(graph, "kernel_function",
                                                 kernel.source);
  };
  auto text = python_for_sizes(
      subgraph.graph, [&](const Sizes& sizes) -> Result<std::string> {
        const auto at = graph_at(subgraph.graph, sizes);
        if (!at) return std::unexpected(at.error());
        return printed(*at);
      });
  return text ? std::move(*text) : printed(subgraph.graph);
}

std::string opened_function_source(const Graph& graph, const std::string& name,
                                   const std::string& opening,
                                   const std::string& before,
                                   const std::string& after) {
  std::vector<std::string> inputs = input_names(graph);
  const std::string parameters = joined_names(inputs);
  append_sizes(graph, inputs);
  const std::string call = "_weft_call_" + name;
  return call + " = " + opening + "\n\n\ndef " + name + "(" + parameters +
         "):\n" + opening_lines(graph, name) + "    return " + before + call +
         "(" + joined_names(inputs) + ")" + after + "\n";
}

}  // namespace weft
