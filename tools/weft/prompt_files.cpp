#include "tools/weft/prompt_files.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

#include "actors/llm/templates.hpp"
#include "config/settings.hpp"
#include "messages/earlier_names.hpp"
#include "messages/joined.hpp"
#include "runtime/llm/utf8.hpp"
#include "runtime/machine/files.hpp"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// A model's whole context would be a few times that.
constexpr std::uintmax_t kPromptBytesMax = 256 << 10;
constexpr std::string_view kEnding = ".md";

std::string names_of_all() {
  std::vector<std::string> names;
  for (const LlmTemplate& llm_template : llm_templates())
    names.emplace_back(llm_template.name);
  return joined(names, ", ");
}

std::string words_of(const LlmTemplate& known) {
  if (known.words.empty()) return "this one has none";
  std::vector<std::string> words;
  for (const std::string_view word : known.words) {
    words.push_back("{{" + std::string(word) + "}}");
  }
  return "it has " + joined(words, ", ");
}

Result<PromptFile> read_prompt(const fs::path& file) {
  PromptFile prompt{
      std::string(earlier::value_now("prompt", file.stem().string())), ""};
  const auto known =
      std::ranges::find(llm_templates(), prompt.name, &LlmTemplate::name);
  if (known == llm_templates().end()) {
    return fail(ErrorCode::wrong_input,
                file.string() + ": there is no prompt template '" +
                    prompt.name + "': there are " + names_of_all());
  }
  std::error_code error;
  const auto size = fs::file_size(file, error);
  if (error || size > kPromptBytesMax) {
    return fail(ErrorCode::wrong_input,
                file.string() + (error ? ": " + error.message()
                                       : " is too large for a prompt (256 KiB "
                                         "at most)"));
  }
  auto text = read_file(file);
  if (!text) return std::unexpected(text.error());
  prompt.text = std::move(*text);
  if (repaired_utf8(prompt.text) != prompt.text) {
    return fail(ErrorCode::wrong_input,
                file.string() + " cannot be read as UTF-8");
  }
  const auto unknown = unknown_words(*known, prompt.text);
  if (!unknown.empty()) {
    return fail(ErrorCode::wrong_input,
                file.string() + ": nothing stands for {{" + unknown.front() +
                    "}}: " + words_of(*known));
  }
  return prompt;
}

fs::path usual_folder() {
  const fs::path user = settings_files(&process_environment, "").user;
  return user.empty() ? fs::path() : user.parent_path() / "prompts";
}

}  // namespace

Result<std::vector<PromptFile>> read_prompt_files(LlmOptions& options) {
  const bool is_named = !options.prompts_folder.empty();
  const fs::path folder =
      is_named ? fs::path(options.prompts_folder) : usual_folder();
  options.prompts_folder.clear();
  std::vector<PromptFile> files;
  if (options.name.empty()) return files;  // nobody is asked anything
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    if (!is_named) return files;
    return fail(ErrorCode::wrong_input,
                "there is no folder of prompts " + folder.string() +
                    ": 'weft llm prompts FOLDER' makes one to begin from");
  }
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == kEnding) paths.push_back(entry.path());
  }
  if (error) {
    return fail(ErrorCode::wrong_input,
                folder.string() + ": " + error.message());
  }
  std::ranges::sort(paths);
  for (const fs::path& path : paths) {
    auto prompt = read_prompt(path);
    if (!prompt) return std::unexpected(prompt.error());
    files.push_back(std::move(*prompt));
  }
  if (!files.empty()) options.prompts_folder = fs::absolute(folder).string();
  return files;
}

std::vector<PromptOverride> keep_prompts(const std::vector<PromptFile>& files,
                                         Blobs& blobs) {
  std::vector<PromptOverride> prompt_overrides;
  for (const PromptFile& file : files) {
    prompt_overrides.push_back({file.name, blobs.put(file.text)});
  }
  return prompt_overrides;
}

Result<void> write_prompt_files(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return fail(ErrorCode::wrong_input,
                "cannot make " + folder.string() + ": " + error.message());
  }
  for (const LlmTemplate& llm_template : llm_templates()) {
    const fs::path file =
        folder / (std::string(llm_template.name) + std::string(kEnding));
    if (fs::exists(file, error)) {
      return fail(ErrorCode::wrong_input,
                  file.string() + " is there already: name another folder");
    }
  }
  for (const LlmTemplate& llm_template : llm_templates()) {
    const fs::path file =
        folder / (std::string(llm_template.name) + std::string(kEnding));
    std::ofstream out(file, std::ios::binary);
    out << llm_template.text;
    if (!out.flush()) {
      return fail(ErrorCode::failed, "cannot write " + file.string());
    }
  }
  return {};
}

}  // namespace weft
