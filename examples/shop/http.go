package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/hipq/hipq/queue"
)

// Handler takes orders (POST /orders) and shows them (GET /orders/{id}).
func (s *Shop) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.postOrder)
	mux.HandleFunc("GET /orders/{id}", s.getOrder)
	return mux
}

func (s *Shop) postOrder(w http.ResponseWriter, r *http.Request) {
	var order struct {
		To    string `json:"to"`
		Cents int    `json:"cents"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&order); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, err := s.Order(r.Context(), order.To, order.Cents)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusCreated, map[string]any{"order": id})
}

func (s *Shop) getOrder(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	var receipt string
	if err == nil {
		receipt, err = s.Receipt(r.Context(), id)
	}
	switch {
	case errors.Is(err, queue.ErrNotFound), errors.Is(err, strconv.ErrSyntax):
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		answer(w, http.StatusOK, map[string]any{"order": id, "receipt": receipt})
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails if the client has hung up
}
