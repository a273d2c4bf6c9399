#include "observe/report/page.h"

#include <map>

#include "observe/report/web_assets.h"

namespace accrue::observe {
namespace {

constexpr std::string_view signature = "<!-- accrue report -->";

std::string escaped_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

/// JSON has `<` only in strings, where it may also be written as an escape: so nothing in it can
/// end the element that contains it.
std::string escaped_json(std::string_view data) {
  std::string out;
  out.reserve(data.size());
  for (const char c : data) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

/// The template with `{{name}}` replaced. Inserted text is not searched again.
std::string filled(std::string_view text, const std::map<std::string_view, std::string>& values) {
  constexpr std::string_view opening = "{{", closing = "}}";
  std::string page;
  while (true) {
    const std::size_t begin = text.find(opening);
    page += text.substr(0, begin);
    if (begin == std::string_view::npos) return page;
    const std::size_t end = text.find(closing, begin);
    page += values.at(text.substr(begin + opening.size(), end - begin - opening.size()));
    text.remove_prefix(end + closing.size());
  }
}

}  // namespace

std::string make_page(const PageContent& content) {
  return filled(web::page_template,
                {{"signature", std::string(signature)},
                 {"nonce", std::string(content.nonce)},
                 {"title", escaped_text(content.title)},
                 {"style", std::string(web::uplot_style) + std::string(web::style)},
                 {"data", escaped_json(content.data_json)},
                 {"uplot", std::string(web::uplot_script)},
                 {"script", std::string(web::script)}});
}

bool is_page(std::string_view beginning) {
  constexpr std::size_t longest_prologue = 64;
  return beginning.substr(0, longest_prologue + signature.size()).find(signature) !=
         std::string_view::npos;
}

}  // namespace accrue::observe
