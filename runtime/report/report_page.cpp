#include "runtime/report/report_page.hpp"

#include <nlohmann/json.hpp>

#include "embedded/runtime/report/page/calls.js"
#include "embedded/runtime/report/page/candidate.js"
#include "embedded/runtime/report/page/charts.js"
#include "embedded/runtime/report/page/dom.js"
#include "embedded/runtime/report/page/frame.html"
#include "embedded/runtime/report/page/graph.js"
#include "embedded/runtime/report/page/main.js"
#include "embedded/runtime/report/page/numbers.js"
#include "embedded/runtime/report/page/overview.js"
#include "embedded/runtime/report/page/source.js"
#include "embedded/runtime/report/page/style.css"
#include "embedded/runtime/report/page/subgraph.js"
#include "embedded/runtime/report/page/table.js"
#include "embedded/runtime/report/page/texts.js"
#include "embedded/runtime/report/page/timeline.js"
#include "runtime/report/text_pack.hpp"
#include "runtime/store/sha256.hpp"

namespace weft {
namespace {

using nlohmann::json;

/// Text in an element that HTML reads as raw text: no "<" stands in it, so it
/// can end no element and begin no comment.
std::string raw_json(const json& value) {
  const std::string text =
      value.dump(-1, ' ', false, json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

/// One script of its files: they share their names.
std::string page_script() {
  namespace page = embedded;
  std::string script = "\"use strict\";\n";
  for (const char* part :
       {page::runtime_report_page_dom, page::runtime_report_page_numbers,
        page::runtime_report_page_texts, page::runtime_report_page_source,
        page::runtime_report_page_table, page::runtime_report_page_charts,
        page::runtime_report_page_graph, page::runtime_report_page_timeline,
        page::runtime_report_page_overview, page::runtime_report_page_candidate,
        page::runtime_report_page_subgraph, page::runtime_report_page_calls,
        page::runtime_report_page_main}) {
    script += part;
  }
  return script;
}

/// The frame with its marks replaced, each once and in this order.
/// Inserted text is not searched for marks: a journal may contain "@DATA@".
std::string framed(std::string_view connect, const std::string& data,
                   const std::string& packs) {
  const std::string script = page_script();
  const std::string style = embedded::runtime_report_page_style;
  std::string_view rest = embedded::runtime_report_page_frame;
  std::string out;
  const auto put = [&](std::string_view marker, std::string_view text) {
    const auto at = rest.find(marker);
    out += rest.substr(0, at);
    out += text;
    rest.remove_prefix(at + marker.size());
  };
  put("@SCRIPT_HASH@", policy_hash(script));
  put("@STYLE_HASH@", policy_hash(style));
  put("@CONNECT@", connect);
  put("@STYLE@", style);
  put("@DATA@", data);
  put("@PACKS@", packs);
  put("@SCRIPT@", script);
  return out + std::string(rest);
}

/// Adds texts in the order of their worth, and counts what has no room.
class Texts {
 public:
  Texts(const Journal& journal, const PageLimits& limits)
      : journal_(journal), limits_(limits), packs_(limits.texts_bytes_max) {}

  void add(const json& hash) {
    if (!hash.is_string()) return;
    const auto& name = hash.get_ref<const std::string&>();
    if (name.empty() || packs_.index().contains(name)) return;
    const auto text = journal_.get_blob(name);
    if (text && text->size() <= limits_.text_bytes_max &&
        packs_.add(name, *text)) {
      return;
    }
    ++left_out_;
    if (text) left_out_bytes_ += text->size();
  }

  json index() const {
    json all = json::object();
    for (const auto& [hash, where] : packs_.index()) {
      all[hash] = {where.pack, where.offset, where.size};
    }
    return all;
  }
  std::string elements() {
    std::string html;
    const auto& packs = packs_.packs();
    for (std::size_t i = 0; i < packs.size(); ++i) {
      html += "<script type=\"application/octet-stream\" id=\"pack-" +
              std::to_string(i) + "\">" + packs[i] + "</script>\n";
    }
    return html;
  }
  json left_out() const {
    return {{"texts", left_out_}, {"text_bytes", left_out_bytes_}};
  }

 private:
  const Journal& journal_;
  PageLimits limits_;
  TextPacks packs_;
  std::size_t left_out_ = 0;
  std::size_t left_out_bytes_ = 0;
};

void add_sources(const json& view, Texts& texts, bool best) {
  for (const json& subgraph : view["subgraphs"]) {
    for (const json& candidate : subgraph["candidates"]) {
      if ((candidate["id"] == subgraph["best"]) != best) continue;
      texts.add(candidate["source"]);
      texts.add(candidate.value("log", json()));
    }
  }
}

/// What one looks at first goes in first.
void add_all(const json& view, Texts& texts) {
  texts.add(view["problem_text"]);
  for (const json& file : view["files"]) {
    if (file["path"] == "composed/model_new.py") texts.add(file["text"]);
  }
  add_sources(view, texts, true);
  for (const json& call : view["calls"]) {
    if (!call["reply"].is_object()) continue;
    for (const json& choice : call["reply"]["choices"]) {
      texts.add(choice["text"]);
    }
  }
  add_sources(view, texts, false);
  for (const json& call : view["calls"]) {
    for (const json& part : call["parts"]) texts.add(part["text"]);
  }
}

}  // namespace

Result<std::string> report_page(const Journal& journal, const json& view,
                                const PageLimits& limits) {
  Texts texts(journal, limits);
  add_all(view, texts);
  json data = view;
  data["texts"] = texts.index();
  data["left_out"].update(texts.left_out());
  return framed("'none'", raw_json(data), texts.elements());
}

std::string live_page() { return framed("'self'", "null", ""); }

std::string policy_hash(std::string_view text) {
  const auto digest = Sha256()(text);
  return "sha256-" +
         base64({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace weft
